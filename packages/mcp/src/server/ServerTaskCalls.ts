import { Protocol } from "@bowline/domain/peer/PeerError"
import {
  isJSONRPCResultResponse,
  ProtocolError,
  specTypeSchemas,
  type CallToolResult,
  type Client,
  type JSONRPCMessage,
  type RequestOptions,
  type Transport
} from "@modelcontextprotocol/client"
import { Effect, Fiber, Option, Predicate, Schema } from "effect"
import { type CallCancels, cancelTimeout } from "./CallCancels.ts"
import { ServerFailure } from "./Failure.ts"
import type { Answers } from "./PendingCall.ts"
import { awaitEnd, ServerTask } from "./ServerTask.ts"

/** The extension that brings tasks to 2026-07-28. 2025-11-25 has tasks of its own. */
export const tasksExtension = "io.modelcontextprotocol/tasks"

/** Where a result carries the task that the server has made of its call. */
const taskKey = "bowline/task"

/** How long a server keeps a result that nobody has asked for: as long as the longest time limit of a call, in milliseconds. */
const ttl = 21_600_000

/** Whoever asks has a timer of its own. This is the longest one that the protocol's client takes. */
export const timeout = 2_147_483_647

const Task = Schema.toStandardSchemaV1(ServerTask)
const Created = Schema.toStandardSchemaV1(Schema.Struct({ task: ServerTask }))
const Carried = Schema.decodeUnknownOption(Schema.Struct({ [taskKey]: ServerTask }))
const Anything = Schema.toStandardSchemaV1(Schema.Unknown)

const carrying = (message: JSONRPCMessage): JSONRPCMessage =>
  isJSONRPCResultResponse(message) && message.result["resultType"] === "task"
    ? { ...message, result: { resultType: "complete", content: [], _meta: { [taskKey]: message.result } } }
    : message

/** The protocol's client refuses a result that is a task of 2026-07-28: it gets an empty one that carries the task. */
export const carryTasks = (transport: Transport): void => {
  const { onmessage: take } = transport
  const onmessage: typeof take = (message, extra) => take?.(carrying(message), extra)
  Object.assign(transport, { onmessage })
}

/** The task that the server has made of a call, if it has. */
export const taskIn = ({ _meta }: CallToolResult): Option.Option<ServerTask> =>
  Option.map(Carried(_meta), (carried) => carried[taskKey])

/** The server has taken the call: whatever it answers about the task, the call is not made again. */
const taken = (failure: ServerFailure): ServerFailure => failure.taken

const notAResult = ServerFailure.of(
  new Protocol({ message: "The result of the server's task is not one of a tool" })
).taken

/** Leaves a task of which nobody asks any more: a call that only lacks an account is resumed. */
export const orLeave =
  (leave: Effect.Effect<void>) =>
  <A>(asking: Effect.Effect<A, ServerFailure>): Effect.Effect<A, ServerFailure> =>
    asking.pipe(
      Effect.tapError(({ reason }) => (reason._tag === "account_required" ? Effect.void : leave)),
      Effect.onInterrupt(() => leave)
    )

/** Whether a task asks something that it was not told before, or does not ask. */
const hasNews = ({ inputRequests, status }: ServerTask, told: ReadonlyArray<string>): boolean => {
  if (status !== "input_required" || told.length === 0) return true
  const names = Predicate.isReadonlyObject(inputRequests) ? Object.keys(inputRequests) : []
  return names.some((name) => !told.includes(name))
}

/** The calls that a server runs as tasks of its own: they are asked for until they end, as the tasks of peers are. */
export class ServerTaskCalls {
  readonly #client: Client
  readonly #cancels: CallCancels
  readonly #ask: <A>(request: (options: RequestOptions) => Promise<A>) => Effect.Effect<A, ServerFailure>

  constructor(
    client: Client,
    cancels: CallCancels,
    ask: <A>(request: (options: RequestOptions) => Promise<A>) => Effect.Effect<A, ServerFailure>
  ) {
    this.#client = client
    this.#cancels = cancels
    this.#ask = ask
  }

  /** Whether tools that need a task can be called. */
  get areSupported(): boolean {
    return this.#client.getServerCapabilities()?.tasks?.requests?.tools?.call !== undefined
  }

  /** Makes a call that asks for a task: the result carries it. */
  async begin(params: Readonly<Record<string, unknown>>, options: RequestOptions): Promise<CallToolResult> {
    const request = { method: "tools/call", params: { ...params, task: { ttl } } }
    const { task } = await this.#client.request(request, Created, options)
    return { content: [], _meta: { [taskKey]: task } }
  }

  /**
   * The answer to a call that asks for a task. Such a call is cancelled by the name of its task, so where it is interrupted, its answer is awaited in
   * the background, for 5 s at most.
   */
  named<E>(asked: Effect.Effect<CallToolResult, E>): Effect.Effect<CallToolResult, E> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.gen({ self: this }, function* () {
        // It ends with its answer. Where the call is interrupted, its cancel ends it.
        const asking = yield* Effect.forkDetach(Effect.interruptible(asked), { startImmediately: true })
        const cancel = Fiber.join(asking).pipe(
          Effect.tap((answer) => Effect.sync(() => Option.map(taskIn(answer), ({ taskId }) => this.cancel(taskId)))),
          Effect.timeoutOption(cancelTimeout),
          Effect.ensuring(Fiber.interrupt(asking)),
          Effect.ignore
        )
        const run = Effect.runPromiseWith(yield* Effect.context())
        return yield* Effect.onInterrupt(restore(Fiber.join(asking)), () =>
          Effect.sync(() => void this.#cancels.track(run(cancel)))
        )
      })
    )
  }

  /**
   * Asks for a task until the server has stopped working at it: it has ended, or it asks something besides what it was `told`. Where nobody asks for it any
   * more, it is cancelled.
   */
  follow(
    task: ServerTask,
    told: ReadonlyArray<string>,
    onStatus: (message: string) => void
  ): Effect.Effect<ServerTask, ServerFailure> {
    const { taskId } = task
    const get = () =>
      Effect.map(
        this.#ask((options) => this.#client.request({ method: "tasks/get", params: { taskId } }, Task, options)),
        (now) => (hasNews(now, told) ? now : { ...now, status: "working" as const })
      )
    return awaitEnd(task, get, onStatus).pipe(orLeave(Effect.sync(() => this.cancel(taskId))), Effect.mapError(taken))
  }

  /** The result of a task that has ended, and that nobody has cancelled. */
  resultOf({ error, result, taskId }: ServerTask): Effect.Effect<CallToolResult, ServerFailure> {
    if (error !== undefined) {
      // As an answer to the call: so it is redacted as one.
      return Effect.mapError(
        this.#ask(() => Promise.reject(new ProtocolError(error.code, error.message))),
        taken
      )
    }
    if (result === undefined) return this.fetchResult(taskId)
    return Effect.flatMap(
      Effect.promise(async () => specTypeSchemas.CallToolResult["~standard"].validate(result)),
      (read) => (read.issues === undefined ? Effect.succeed(read.value) : Effect.fail(notAResult))
    )
  }

  /** Asks for the result of a task, which the server gives when there is one. */
  fetchResult(taskId: string): Effect.Effect<CallToolResult, ServerFailure> {
    const request = { method: "tasks/result", params: { taskId } }
    return Effect.mapError(
      this.#ask((options) => this.#client.request(request, specTypeSchemas.CallToolResult, options)),
      taken
    )
  }

  /** Tells a task what it has asked. */
  tell(taskId: string, inputResponses: Answers): Effect.Effect<void, ServerFailure> {
    const request = { method: "tasks/update", params: { taskId, inputResponses } }
    return Effect.asVoid(
      Effect.mapError(
        this.#ask((options) => this.#client.request(request, Anything, options)),
        taken
      )
    )
  }

  /** Tells the server that nobody wants the task any more, and waits for nothing. */
  cancel(taskId: string): void {
    const request = { method: "tasks/cancel", params: { taskId } }
    void this.#client.request(request, Anything, { timeout: cancelTimeout }).catch(() => undefined)
  }
}
