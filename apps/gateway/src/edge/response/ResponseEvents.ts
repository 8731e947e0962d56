import { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import * as Usage from "@bowline/domain/plan/Usage"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { type PlanFrame, toEvent } from "@bowline/runtime/unstable/store/EventRow"
import * as PlanGist from "@bowline/runtime/unstable/store/PlanGist"
import type { Schema } from "effect"
import type { ResponseEcho } from "./ResponseEcho.ts"
import * as Items from "./ResponseItems.ts"
import * as ResponseObject from "./ResponseObject.ts"
import { ResponseTexts } from "./ResponseTexts.ts"

/** An event of a stream of Responses. */
export interface ResponseEvent {
  readonly type: string
  readonly sequence_number: number
}

/** The frames that a response shows. Nothing of the others is parsed. */
const matters: ReadonlySet<PlanEvent["event"]> = new Set<PlanEvent["event"]>([
  ...PlanGist.kept,
  "session",
  "final",
  "error"
])

interface Fields {
  readonly output_index?: number
  readonly [field: string]: unknown
}

interface OpenCall {
  readonly index: number
  readonly call: Items.Call
  readonly artifacts: Array<Schema.Json>
}

/**
 * Turns the frames of a plan into the events of a response, and into the response itself. Both follow from the frames alone: a replay has the
 * same events with the same numbers. The items in front of `from` are those of an earlier response about the same plan.
 *
 *   created ──▶ queued? ──▶ in_progress ──▶ items: message, reasoning, mcp_call, mcp_approval_request ──▶ completed, incomplete or failed
 */
export class ResponseEvents {
  /** The number of the last event; -1 before the first one. */
  last = -1
  /** The calls that wait for a decision. */
  readonly #waiting = new Set<TaskId>()
  readonly #ref: Items.ResponseRef
  readonly #echo: ResponseEcho
  #events: Array<ResponseEvent> = []
  #progress: ResponseObject.Progress = { _tag: "Queued" }
  #isQueued = false
  #usage = Usage.empty
  /** By their `output_index`; undefined where they were taken back. */
  readonly #items: Array<Items.Item | undefined> = []
  readonly #texts: ResponseTexts
  readonly #calls = new Map<TaskId, OpenCall>()
  readonly #approved = new Set<TaskId>()

  constructor(ref: Items.ResponseRef, echo: ResponseEcho) {
    this.#ref = ref
    this.#echo = echo
    this.#texts = new ResponseTexts(ref.plan_id, this.#items, (type, fields) => this.#emit(type, fields))
  }

  get plan_id(): string {
    return this.#ref.plan_id
  }

  /** The response as far as the frames have told it. */
  get response(): ResponseObject.ResponseObject {
    return this.#responseAt(this.#progress)
  }

  /** The response while it waits for a decision: clients expect the usage at the end of a stream. */
  get paused(): ResponseObject.ResponseObject {
    return this.#responseAt({ _tag: "Paused", usage: this.#usage })
  }

  #responseAt(progress: ResponseObject.Progress): ResponseObject.ResponseObject {
    const items = this.#items
      .slice(this.#ref.from)
      .flatMap((item) => (item === undefined ? [] : [this.#texts.current(item)]))
    return ResponseObject.make(this.#ref, this.#echo, progress, items)
  }

  /** Why the plan did not complete, if it has ended so. */
  get failure() {
    return this.#progress._tag === "Failed" ? this.#progress.error : undefined
  }

  get isOver(): boolean {
    return this.#progress._tag === "Completed" || this.#progress._tag === "Failed"
  }

  /** Whether nothing goes on before somebody decides about a call, beside those that were decided just now. */
  waits(decided: ReadonlySet<TaskId>): boolean {
    return !this.isOver && this.#calls.size === 0 && Array.from(this.#waiting).some((call) => !decided.has(call))
  }

  /** The index after the last item of these ids. */
  behind(ids: ReadonlySet<string>): number {
    return this.#items.findLastIndex((item) => item !== undefined && ids.has(item.id)) + 1
  }

  /** The events for a frame. */
  next(frame: PlanFrame): ReadonlyArray<ResponseEvent> {
    return matters.has(frame.event) ? this.tell(toEvent(frame)) : []
  }

  /** The same for what a frame tells. */
  tell(event: PlanEvent): ReadonlyArray<ResponseEvent> {
    if (this.isOver) return []
    this.#read(event)
    const events = this.#events
    this.#events = []
    return events
  }

  #read(event: PlanEvent): void {
    switch (event.event) {
      case "session":
        return this.#lifecycle("response.created")
      case "queued":
        return this.#queue()
      case "plan":
        return this.stand()
      case "step":
        this.stand()
        return this.#texts.endStep("commentary")
      case "text.delta":
      case "reasoning.delta":
        return this.#texts.add(event.event === "text.delta" ? "message" : "reasoning", event.data)
      case "text.retract":
        return this.#texts.retract(event.data)
      case "usage":
        this.#usage = Usage.add(this.#usage, event.data)
        return
      case "approval.requested":
        return this.#request(event.data)
      case "approval.resolved":
        this.#waiting.delete(event.data.task_id)
        return
      case "task.started":
        return this.#start(event.data)
      case "task.artifact":
        this.#calls.get(event.data.task_id)?.artifacts.push(event.data.content)
        return
      case "task.finished":
        return this.#finish(event.data)
      case "final":
        this.#texts.endStep("final_answer")
        return this.#end({ _tag: "Completed", final: event.data })
      case "error":
        this.#texts.abandon()
        return this.#end({ _tag: "Failed", error: event.data, usage: this.#usage })
      default:
        return
    }
  }

  /** The plan waits for its session. The response says so once. */
  #queue(): void {
    if (this.#isQueued || this.#progress._tag !== "Queued") return
    this.#isQueued = true
    this.#lifecycle("response.queued")
  }

  /** The plan runs, though it may not have told that yet. */
  stand(): void {
    if (this.#progress._tag !== "Queued") return
    this.#progress = { _tag: "Running" }
    this.#lifecycle("response.in_progress")
  }

  #end(progress: ResponseObject.Progress): void {
    this.#progress = progress
    const { status } = this.response
    this.#lifecycle(
      status === "completed"
        ? "response.completed"
        : status === "incomplete"
          ? "response.incomplete"
          : "response.failed"
    )
  }

  #request(data: Extract<PlanEvent, { event: "approval.requested" }>["data"]): void {
    this.#texts.endStep("commentary")
    this.#waiting.add(data.task_id)
    this.#approved.add(data.task_id)
    const item = Items.approvalRequest(this.#ref.plan_id, data, this.#echo.labels)
    const index = this.#items.push(item) - 1
    this.#emit("response.output_item.added", { output_index: index, item })
    this.#emit("response.output_item.done", { output_index: index, item })
  }

  #start(data: Extract<PlanEvent, { event: "task.started" }>["data"]): void {
    this.#texts.endStep("commentary")
    const { task_id } = data
    const asked = this.#approved.has(task_id) ? Items.approvalRequestId(this.#ref.plan_id, task_id) : null
    const call = Items.startedCall(data, asked)
    const index = this.#items.push(call) - 1
    this.#calls.set(task_id, { index, call, artifacts: [] })
    const at = { item_id: call.id, output_index: index }
    this.#emit("response.output_item.added", { output_index: index, item: { ...call, arguments: "" } })
    this.#emit("response.mcp_call.in_progress", at)
    this.#emit("response.mcp_call_arguments.delta", { ...at, delta: call.arguments })
    this.#emit("response.mcp_call_arguments.done", { ...at, arguments: call.arguments })
  }

  #finish(data: Extract<PlanEvent, { event: "task.finished" }>["data"]): void {
    const open = this.#calls.get(data.task_id)
    if (open === undefined) return
    this.#calls.delete(data.task_id)
    const { artifacts, index } = open
    const call = Items.finishedCall(open.call, data, artifacts)
    this.#items[index] = call
    this.#emit(`response.mcp_call.${call.status}`, { item_id: call.id, output_index: index })
    this.#emit("response.output_item.done", { output_index: index, item: call })
  }

  #lifecycle(type: string): void {
    this.#emit(type, { response: this.response })
  }

  #emit(type: string, fields: Fields): void {
    const { output_index: index } = fields
    const { from } = this.#ref
    if (index !== undefined && index < from) return
    const at = index === undefined ? {} : { output_index: index - from }
    this.#events.push({ type, sequence_number: ++this.last, ...fields, ...at })
  }
}
