import type { WaitKind } from "@bowline/domain/plan/Inbox"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import type { Schema } from "effect"

/** A call that the client has to make itself. */
export interface ClientCall {
  readonly task_id: TaskId
  readonly tool: string
  readonly input: Schema.Json
}

/** A call that is not over, and what it waits for; undefined while it runs. */
interface Open {
  readonly waitsFor: WaitKind | undefined
  readonly call: ClientCall
  /** The leg in which it began to wait. */
  readonly leg: number
}

/**
 * Where the answers of a plan end before the plan does: every call that is open waits for something that the client brings with a later request, of
 * one of the kinds that the edge `ends` at. What is between two such ends is a leg.
 *
 *     leg ──every open call waits──▶ the answer ends ──the first of them is settled──▶ next leg
 */
export class PlanLegs {
  /** The number of the leg, from 1. */
  leg = 1
  readonly #ends: ReadonlySet<WaitKind>
  readonly #open = new Map<TaskId, Open>()
  /** The leg in which a call has waited last. */
  readonly #waited = new Map<TaskId, number>()

  constructor(ends: Iterable<WaitKind>) {
    this.#ends = new Set(ends)
  }

  /** Takes an event in. Says what a leg has begun with: a call is settled, and the answers `end` there where a result was waited for. */
  next(event: PlanEvent): "leg" | "end" | undefined {
    switch (event.event) {
      case "task.started":
        return this.#set(event.data, undefined)
      case "waiting":
        if (event.data.task_id === null) return undefined
        return this.#set({ ...event.data, task_id: event.data.task_id, tool: event.data.tool ?? "" }, event.data.kind)
      case "approval.requested":
        return this.#set(event.data, "approval")
      case "task.artifact":
        return this.#settle(event.data.task_id)
      case "approval.resolved":
      case "task.finished": {
        const begun = this.#settle(event.data.task_id)
        this.#open.delete(event.data.task_id)
        return begun
      }
      default:
        return undefined
    }
  }

  /** Whether nothing goes on before the client brings something, beside what it has brought just now. */
  waits(brought: ReadonlySet<string>): boolean {
    return this.#isAtEnd && Array.from(this.#open.keys()).some((task) => !brought.has(task))
  }

  /** The calls that the client has to make itself. */
  get results(): ReadonlyArray<ClientCall> {
    return Array.from(this.#open.values()).flatMap(({ call, waitsFor }) => (waitsFor === "result" ? [call] : []))
  }

  /** The leg that begins when these calls are settled. */
  legBehind(tasks: Iterable<string>): number {
    return (
      Math.max(
        0,
        ...Array.from(this.#waited).flatMap(([task, leg]) => (Array.from(tasks).includes(task) ? [leg] : []))
      ) + 1
    )
  }

  get #isAtEnd(): boolean {
    return (
      this.#open.size > 0 &&
      this.#open.values().every(({ waitsFor }) => waitsFor !== undefined && this.#ends.has(waitsFor))
    )
  }

  #set({ input, task_id, tool }: ClientCall, waitsFor: WaitKind | undefined): undefined {
    this.#open.set(task_id, { waitsFor, call: { input, task_id, tool }, leg: this.leg })
    if (waitsFor !== undefined) this.#waited.set(task_id, this.leg)
  }

  #settle(task: TaskId): "leg" | "end" | undefined {
    const open = this.#open.get(task)
    if (open?.waitsFor === undefined || !this.#ends.has(open.waitsFor)) return undefined
    const isEnd = this.#isAtEnd && this.results.length > 0
    // Of calls that are settled together, the first one begins the leg.
    if (open.leg < this.leg || !(isEnd || open.waitsFor === "approval")) return undefined
    this.leg++
    return isEnd ? "end" : "leg"
  }
}
