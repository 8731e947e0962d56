import type { AbortReason, Stage } from "@bowline/domain/plan/Outcome"
import * as Usage from "@bowline/domain/plan/Usage"
import { MessageId, type MessagePart, type Message } from "@bowline/domain/session/Message"
import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { SessionId } from "@bowline/domain/session/Session"
import { fromMillis } from "@bowline/domain/time/Timestamp"
import type { TaskId, TaskState } from "@bowline/domain/tool/TaskState"
import { Deferred, Effect, Exit } from "effect"
import type { Journal } from "../stream/Journal.ts"
import type { PlanStart } from "../store/PlanStart.ts"
import type { PlanChange, Progress } from "../store/PlanStore.ts"
import type { Resumed } from "./Resumption.ts"

/** A task that has started and not finished. */
export interface StartedTask {
  readonly tool: string
  readonly agent: string | null
  readonly endpoint: string | null
  /** Milliseconds since 1970. */
  readonly startedAt: number
  readonly isIdempotent: boolean
  /** Another process has started it, and no fiber of this one has it in its care yet. */
  isInherited: boolean
  remote_task_id: string | null
  remote_context_id: string | null
  /** Whether its ids are stored: then whoever has the plan next knows of it. */
  isKnown: () => boolean
}

/** How a task ended, for the store, the stream and the model. */
export interface TaskEnd {
  readonly state: TaskState
  readonly result: string
  readonly error?: { readonly code: string; readonly message: string }
}

interface Given extends PlanStart {
  readonly session_id: SessionId
  /** As `provider/model`: the one that is asked, and those that may take its place, in order. */
  readonly models: ReadonlyArray<string>
  /** Where it goes on, if another process has begun it. */
  readonly resumed: Resumed | undefined
  /** Whether another process may have its session by now. */
  readonly isOverdue: () => boolean
  /** Whether another process could go on with it. */
  readonly isKept: () => boolean
  readonly journal: Journal
  readonly uuid: () => string
}

/**
 * What a plan in this process knows of itself. The plan's fiber writes it, and whoever ends the plan reads it: so an abort
 * can say what was running, and settle what is open, without waiting for the fiber's own finalizers.
 */
export class PlanRun {
  readonly given: Given
  /** The first reason wins. */
  readonly aborted = Deferred.makeUnsafe<AbortReason>()
  /** Done when the plan is to be left to the next process. */
  readonly handedOver = Deferred.makeUnsafe<void>()
  /** Another process goes on with it, or settles it: since it was left to that one, or since this one has lost it. */
  elsewhere: "handed over" | "lost" | undefined
  /** Of the given models those that may still be asked, the one in use first. */
  models: ReadonlyArray<string>
  steps = 0
  toolCalls = 0
  usage = Usage.empty
  /** The text of the step that runs, without what was retracted. */
  partialText = ""
  /** Why the attempts of the step have failed so far. */
  failures: Array<ProviderErrorReason> = []
  /** What the provider has reported in it so far. */
  attemptUsage: { readonly step: number; readonly attempt: number; readonly usage: Usage.Usage } | undefined
  readonly tasks = new Map<TaskId, StartedTask>()
  /** Calls of the current step that the history has no result for, with the names of their tools. */
  readonly unanswered = new Map<TaskId, string>()
  /** What the peers call the tasks that are over. */
  readonly remoteTasks = new Map<TaskId, string>()
  /** Tasks that are over for the plan, and that nobody has ended with their peers: it is to be done once the plan's end is stored. */
  readonly left: Array<StartedTask> = []
  /** The answer that ends the plan: it is written with the outcome. */
  answer: ReadonlyArray<MessagePart> | undefined
  /** The stage that a failure came out of, until the next one begins. */
  failedIn: Stage | null | undefined
  #stages: Array<Stage> = []

  constructor(given: Given) {
    this.given = given
    this.models = given.models
    if (given.resumed !== undefined) this.#resume(given.resumed)
  }

  #resume({ progress, tasks }: Resumed): void {
    this.steps = progress.steps
    this.toolCalls = progress.tool_calls
    this.usage = progress.usage
    for (const { task_id, started_at, state, ...task } of tasks) {
      const isIdempotent = task.remote_task_id === null
      if (state === "running") {
        const startedAt = Date.parse(started_at)
        this.tasks.set(task_id, { ...task, startedAt, isIdempotent, isInherited: true, isKnown: () => true })
        this.unanswered.set(task_id, task.tool)
      } else if (task.remote_task_id !== null) this.remoteTasks.set(task_id, task.remote_task_id)
    }
  }

  /** The one in use. */
  get model(): string {
    return this.models[0] ?? ""
  }

  get progress(): Progress {
    return { model: this.model, steps: this.steps, tool_calls: this.toolCalls, usage: this.usage }
  }

  /** One stage at a time: a tool that runs hides everything else, and so does an approval everything but that. */
  get stage(): Stage | null {
    const isInherited = Array.from(this.tasks.values()).some((task) => task.isInherited)
    if (this.#stages.includes("tool") || isInherited) return "tool"
    if (this.#stages.includes("approval")) return "approval"
    return this.#stages.at(-1) ?? null
  }

  /** The plan waits in this stage for as long as the effect runs. */
  within(stage: Stage): <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> {
    return (effect) =>
      Effect.suspend(() => {
        this.#stages.push(stage)
        this.failedIn = undefined
        return Effect.onExit(effect, (exit) =>
          Effect.sync(() => {
            if (Exit.isFailure(exit)) this.failedIn ??= this.stage
            this.#stages.splice(this.#stages.lastIndexOf(stage), 1)
          })
        )
      })
  }

  abort(reason: AbortReason): void {
    Deferred.doneUnsafe(this.aborted, Effect.succeed(reason))
  }

  /** Leaves the plan to the next process, if that can go on from here; else it is aborted. */
  end(reason: AbortReason): void {
    const isResumable = Array.from(this.tasks.values()).every(
      (task) => task.isIdempotent || task.remote_task_id !== null
    )
    if (isResumable && this.given.isKept()) Deferred.doneUnsafe(this.handedOver, Effect.void)
    else this.abort(reason)
  }

  /**
   * Whether what a call has started with its peer is not for this process to end: another one goes on with it, or may do so by now.
   * What nobody else knows of is.
   */
  isHandedOver(task: StartedTask): boolean {
    if (this.elsewhere === "lost") return task.isIdempotent || task.isKnown()
    return this.elsewhere === "handed over" || this.given.isOverdue()
  }

  /** Counts what the attempt has used, however it ended. */
  countUsage(): void {
    if (this.attemptUsage === undefined) return
    const { step, attempt, usage } = this.attemptUsage
    this.attemptUsage = undefined
    this.usage = Usage.add(this.usage, usage)
    this.given.journal.append(
      [{ _tag: "Progressed", stage: this.stage, progress: this.progress }],
      [{ event: "usage", data: { step, attempt, ...usage } }]
    )
  }

  message(
    role: Message["role"],
    parts: ReadonlyArray<MessagePart>,
    now: number
  ): Extract<PlanChange, { readonly _tag: "MessageAppended" }> {
    return {
      _tag: "MessageAppended",
      message: { message_id: MessageId.make(`msg_${this.given.uuid()}`), role, parts },
      at: fromMillis(now)
    }
  }

  /** Answers a call in the history; if it had been started, ends its task. */
  finishTask(task_id: TaskId, end: TaskEnd, content: string, now: number): void {
    this.unanswered.delete(task_id)
    const answer = this.message("tool", [{ type: "tool_result", task_id, state: end.state, content }], now)
    const task = this.tasks.get(task_id)
    if (task === undefined) return this.given.journal.append([answer], [])
    this.tasks.delete(task_id)
    if (task.remote_task_id !== null) this.remoteTasks.set(task_id, task.remote_task_id)
    const isCut = end.state === "interrupted" || end.state === "timed-out"
    if (isCut && (task.isInherited || this.given.isOverdue())) this.left.push(task)
    const error = end.error === undefined ? {} : { error: end.error }
    this.given.journal.append(
      [
        {
          _tag: "TaskFinished",
          task_id,
          state: end.state,
          result: end.result,
          error: end.error ?? null,
          at: fromMillis(now)
        },
        answer
      ],
      [
        {
          event: "task.finished",
          data: {
            task_id,
            state: end.state,
            remote_task_id: task.remote_task_id,
            remote_context_id: task.remote_context_id,
            duration_ms: now - task.startedAt,
            ...error
          }
        }
      ]
    )
  }
}
