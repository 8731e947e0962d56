import type { Dialect } from "@bowline/domain/peer/Agent"
import { Result, Stream } from "effect"
import { json, type HostRequest, type HostResponse } from "../../http/Host.ts"
import type { Act } from "../Act.ts"
import type { Call, ReceivedSend } from "../Seen.ts"
import { isOver, type Scene } from "./Scene.ts"
import type { SendParams } from "./SendParams.ts"
import type { ReadRequest, RpcError, StrictRequest } from "./StrictRequest.ts"
import { bareWire } from "./BareWire.ts"
import { wire10 } from "./Wire10.ts"
import { sceneAt, TaskBook, type Entry } from "./TaskBook.ts"
import { followTask } from "./followTask.ts"
import type { PeerWire } from "./PeerWire.ts"

const wires: { readonly [D in Dialect]: PeerWire } = {
  "a2a-1.0": wire10,
  "a2a-0.3": bareWire({ task: "taskId", context: "contextId", message: "messageId", artifact: "artifactId" }),
  bindu: bareWire({ task: "task_id", context: "context_id", message: "message_id", artifact: "artifact_id" })
}

type RequestId = ReadRequest["id"]

interface Manner {
  readonly dialect: Dialect
  readonly streams: boolean
  readonly obeysCancel: boolean
  readonly acts: ReadonlyArray<Act> | ((send: ReceivedSend) => ReadonlyArray<Act>)
  readonly uuid: () => string
}

const unsupported: RpcError = { code: -32004, message: "This operation is not supported" }
const overAlready = {
  "a2a-1.0": unsupported,
  "a2a-0.3": { code: -32600, message: "The task is over" },
  bindu: { code: -32008, message: "The task is immutable" }
} as const

const encoder = new TextEncoder()

/** The answer to a request: a result, or an error. */
export const answer = (id: RequestId, result: Result.Result<object, RpcError>): HostResponse =>
  json(200, {
    jsonrpc: "2.0",
    id,
    ...(Result.isSuccess(result) ? { result: result.success } : { error: result.failure })
  })

/** One event for each result. */
const streamed = (id: RequestId, results: Stream.Stream<object>): HostResponse => ({
  status: 200,
  headers: { "content-type": "text/event-stream", "cache-control": "no-cache" },
  body: Stream.map(results, (result) => encoder.encode(`data: ${JSON.stringify({ jsonrpc: "2.0", id, result })}\n\n`))
})

/** Answers the requests of a dialect. Instants are in milliseconds. */
export class Responder {
  readonly #manner: Manner
  readonly #wire: PeerWire
  readonly #tasks: TaskBook

  constructor(manner: Manner) {
    this.#manner = manner
    this.#wire = wires[manner.dialect]
    this.#tasks = new TaskBook(manner.obeysCancel)
  }

  /** The call that a request makes, if the peer supports it in this state. */
  callOf(request: StrictRequest, headers: HostRequest["headers"], now: number): Result.Result<Call, RpcError> {
    const isStreamed = request.method === "message/stream" || request.method === "tasks/resubscribe"
    if (isStreamed && !this.#manner.streams) return Result.fail(unsupported)
    if (!("params" in request)) return Result.succeed(request)
    return Result.map(this.#received(request.params, headers, now), (send) => ({ method: request.method, send }))
  }

  handle(call: Call, id: RequestId, now: number): HostResponse {
    const taskOf = (entry: Entry) => this.#wire.task(entry.task, sceneAt(entry, now))
    switch (call.method) {
      case "message/send":
        return answer(id, Result.succeed(this.#sent(call.send, now)))
      case "message/stream":
        return streamed(id, this.#streamed(call.send, now))
      case "tasks/get":
        return answer(id, Result.map(this.#tasks.find(call.taskId), taskOf))
      case "tasks/cancel":
        return answer(id, Result.map(this.#tasks.cancel(call.taskId, now), taskOf))
      case "tasks/resubscribe":
        return this.#resubscribed(call.taskId, id, now)
    }
  }

  #received(params: SendParams, headers: HostRequest["headers"], now: number): Result.Result<ReceivedSend, RpcError> {
    const { contextId, taskId } = params.message
    const { dialect, uuid } = this.#manner
    const known = taskId === undefined ? undefined : this.#tasks.find(taskId)
    const before = known === undefined ? undefined : Result.getOrUndefined(known)
    // In bindu a task that is not known is a new one.
    if (known !== undefined && Result.isFailure(known) && dialect !== "bindu") return Result.fail(known.failure)
    if (before !== undefined && isOver(sceneAt(before, now))) return Result.fail(overAlready[dialect])
    return Result.succeed({
      ...params,
      taskId: taskId ?? uuid(),
      contextId: contextId ?? before?.task.contextId ?? uuid(),
      continues: before !== undefined,
      headers
    })
  }

  #actsOf(send: ReceivedSend): ReadonlyArray<Act> {
    const { acts } = this.#manner
    return typeof acts === "function" ? acts(send) : acts
  }

  #sent(send: ReceivedSend, now: number): object {
    const task = { id: send.taskId, contextId: send.contextId }
    const acts = this.#actsOf(send)
    if (acts[0]?._tag === "Reply") return this.#wire.sentMessage(task, acts[0].parts)
    return this.#wire.sentTask(task, sceneAt(this.#tasks.begin(task, send.message, acts, now), now))
  }

  #streamed(send: ReceivedSend, now: number): Stream.Stream<object> {
    const task = { id: send.taskId, contextId: send.contextId }
    const acts = this.#actsOf(send)
    if (acts[0]?._tag === "Reply") return Stream.make(this.#wire.sentMessage(task, acts[0].parts))
    const entry = this.#tasks.begin(task, send.message, acts, now)
    return this.#told(entry, entry.beginning, -1)
  }

  #resubscribed(taskId: string, id: RequestId, now: number): HostResponse {
    const entry = this.#tasks.find(taskId)
    if (Result.isFailure(entry)) return answer(id, Result.fail(entry.failure))
    const scene = sceneAt(entry.success, now)
    if (this.#manner.dialect === "a2a-1.0" && isOver(scene)) return answer(id, Result.fail(unsupported))
    return streamed(id, this.#told(entry.success, scene, now - entry.success.since))
  }

  #told(entry: Entry, scene: Scene, after: number): Stream.Stream<object> {
    const { task } = entry
    const look = () => Result.getOrElse(this.#tasks.find(task.id), () => entry)
    return Stream.map(followTask(scene, { entry, after }, look), (told) => this.#wire.told(task, told))
  }
}
