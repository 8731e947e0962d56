import { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import * as Usage from "@bowline/domain/plan/Usage"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { type PlanFrame, toEvent } from "@bowline/runtime/unstable/store/EventRow"
import * as PlanGist from "@bowline/runtime/unstable/store/PlanGist"
import { isImageType } from "@bowline/runtime/unstable/provider/FileText"
import type { Schema } from "effect"
import type { ShownFiles } from "../../http/ShownFiles.ts"
import type { ResponseEcho } from "./ResponseEcho.ts"
import { PlanLegs } from "../leg/PlanLegs.ts"
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
 * same events with the same numbers. The items in front of its leg, and behind it, are those of other responses about the same plan.
 *
 *   created ──▶ queued? ──▶ in_progress ──▶ items: message, reasoning, mcp_call, image_generation_call, mcp_approval_request, function_call
 *     ──▶ completed, incomplete or failed; completed as well where the plan waits for results
 */
export class ResponseEvents {
  /** The number of the last event; -1 before the first one. */
  last = -1
  readonly #legs = new PlanLegs(["approval", "result"])
  /** The items of the leg, once it has begun, and once it has ended. */
  #from: number | undefined
  #until: number | undefined
  /** Whether an earlier leg has ended where results were waited for: what that has used does not count here. */
  #isLater = false
  readonly #ref: Items.ResponseRef
  readonly #echo: ResponseEcho
  readonly #files: ShownFiles | undefined
  #events: Array<ResponseEvent> = []
  #progress: ResponseObject.Progress = { _tag: "Queued" }
  #isQueued = false
  #usage = Usage.empty
  /** By their `output_index`; undefined where they were taken back. */
  readonly #items: Array<Items.Item | undefined> = []
  readonly #texts: ResponseTexts
  readonly #calls = new Map<TaskId, OpenCall>()
  readonly #approved = new Set<TaskId>()

  constructor(ref: Items.ResponseRef, echo: ResponseEcho, files?: ShownFiles) {
    this.#files = files
    this.#ref = ref
    this.#echo = echo
    if (ref.leg === 1) this.#from = 0
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
      .slice(this.#from ?? this.#items.length, this.#until)
      .flatMap((item) => (item === undefined ? [] : [this.#texts.current(item)]))
    return ResponseObject.make(this.#ref, this.#echo, progress, items)
  }

  /** The items of all legs. */
  get items(): ReadonlyArray<Items.Item> {
    return this.#items.flatMap((item) => (item === undefined ? [] : [item]))
  }

  /** Why the plan did not complete, if it has ended so. */
  get failure() {
    return this.#progress._tag === "Failed" ? this.#progress.error : undefined
  }

  get isOver(): boolean {
    return this.#progress._tag === "Completed" || this.#progress._tag === "Failed" || this.isCalled
  }

  /** Whether the response has ended before the plan, with calls that the client is to make. */
  get isCalled(): boolean {
    return this.#progress._tag === "Called"
  }

  /** Whether the leg has begun, and nothing goes on before the client brings something, beside what it has brought just now. */
  waits(brought: ReadonlySet<string>): boolean {
    return !this.isOver && this.#from !== undefined && this.#legs.waits(brought)
  }

  /** The same, where one of the calls is the client's own. */
  waitsForResults(brought: ReadonlySet<string>): boolean {
    return this.waits(brought) && this.#legs.results.some(({ task_id }) => !brought.has(task_id))
  }

  /** The leg that begins when these calls are settled. */
  legBehind(tasks: Iterable<string>): number {
    return this.#legs.legBehind(tasks)
  }

  /** Whether there is such a leg, or will be as soon as the client goes on. */
  get exists(): boolean {
    return this.#from !== undefined || (this.#legs.waits(new Set()) && this.#legs.leg + 1 === this.#ref.leg)
  }

  /** Ends the response with the calls that the client is to make. */
  call(): ReadonlyArray<ResponseEvent> {
    this.#until = this.#items.length
    this.#end({ _tag: "Called", usage: this.#usage })
    return this.#take()
  }

  /** The events for a frame. */
  next(frame: PlanFrame): ReadonlyArray<ResponseEvent> {
    return matters.has(frame.event) ? this.tell(toEvent(frame)) : []
  }

  /** The same for what a frame tells. */
  tell(event: PlanEvent): ReadonlyArray<ResponseEvent> {
    if (this.isOver && !this.isCalled) return []
    this.#begin(this.#legs.next(event))
    this.#read(event)
    return this.#take()
  }

  #take(): ReadonlyArray<ResponseEvent> {
    const events = this.#events
    this.#events = []
    return events
  }

  #begin(what: "leg" | "end" | undefined): void {
    if (what === undefined || this.isOver) return
    if (what === "end" && this.#from !== undefined) {
      this.#until = this.#items.length
      return this.#end({ _tag: "Called", usage: this.#usage })
    }
    if (what === "end") {
      this.#usage = Usage.empty
      this.#isLater = true
    }
    if (this.#from === undefined && this.#legs.leg === this.#ref.leg) this.#from = this.#items.length
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
      case "waiting":
        return this.#wait(event.data)
      case "task.started":
        return this.#start(event.data)
      case "task.artifact":
        return this.#addArtifact(event.data)
      case "task.finished":
        return this.#finish(event.data)
      case "final":
        this.#texts.endStep("final_answer")
        return this.#end({
          _tag: "Completed",
          final: event.data,
          usage: this.#isLater ? this.#usage : event.data.usage
        })
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
    if (this.isCalled) return
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
    this.#approved.add(data.task_id)
    const item = Items.approvalRequest(this.#ref.plan_id, data, this.#echo.labels)
    const index = this.#items.push(item) - 1
    this.#emit("response.output_item.added", { output_index: index, item })
    this.#emit("response.output_item.done", { output_index: index, item })
  }

  #start(data: Extract<PlanEvent, { event: "task.started" }>["data"]): void {
    this.#texts.endStep("commentary")
    const { kind, task_id } = data
    if (kind === "client") return
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

  #wait({ input, kind, task_id, tool }: Extract<PlanEvent, { event: "waiting" }>["data"]): void {
    if (kind !== "result" || task_id === null) return
    const item = Items.functionCall(task_id, tool ?? "", input)
    const index = this.#items.push(item) - 1
    const at = { item_id: item.id, output_index: index }
    this.#emit("response.output_item.added", {
      output_index: index,
      item: { ...item, arguments: "", status: "in_progress" }
    })
    this.#emit("response.function_call_arguments.delta", { ...at, delta: item.arguments })
    this.#emit("response.function_call_arguments.done", { ...at, name: item.name, arguments: item.arguments })
    this.#emit("response.output_item.done", { output_index: index, item })
  }

  #addArtifact(data: Extract<PlanEvent, { event: "task.artifact" }>["data"]): void {
    const call = this.#calls.get(data.task_id)
    call?.artifacts.push(data.content)
    if (call === undefined || data.file_id === undefined || !isImageType(data.media_type)) return
    this.#texts.endStep("commentary")
    const item = Items.imageItem(data, this.#items.length, this.#files?.of(data.file_id))
    const index = this.#items.push(item) - 1
    this.#emit("response.output_item.added", { output_index: index, item })
    this.#emit("response.output_item.done", { output_index: index, item })
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
    const from = this.#from ?? Infinity
    if (index !== undefined && (index < from || index >= (this.#until ?? Infinity))) return
    const at = index === undefined ? {} : { output_index: index - from }
    this.#events.push({ type, sequence_number: ++this.last, ...fields, ...at })
  }
}
