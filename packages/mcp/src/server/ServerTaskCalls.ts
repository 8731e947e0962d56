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
import { Effect, Exit, Fiber, Option, Schema } from "effect"
import { type CallCancels, cancelTimeout } from "./CallCancels.ts"
import { ServerFailure } from "./Failure.ts"
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

const cancelled = ({ statusMessage = "The server has cancelled the task" }: ServerTask): CallToolResult => ({
  isError: true,
  content: [{ type: "text", text: statusMessage }]
})

const notAResult = ServerFailure.of(new Protocol({ message: "The result of the server's task is not one of a tool" }))

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
          Effect.tap((answer) => Effect.sync(() => Option.map(taskIn(answer), (task) => this.#cancel(task)))),
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

  /** The result of a task; undefined where the server asks for input. A task that has not ended by itself is cancelled. */
  result(
    task: ServerTask,
    onStatus: (message: string) => void
  ): Effect.Effect<CallToolResult | undefined, ServerFailure> {
    const params = { taskId: task.taskId }
    const get = () => this.#ask((options) => this.#client.request({ method: "tasks/get", params }, Task, options))
    return awaitEnd(task, get, onStatus).pipe(
      Effect.onExit((exit) =>
        Exit.isSuccess(exit) && exit.value.status !== "input_required"
          ? Effect.void
          : Effect.sync(() => this.#cancel(params))
      ),
      Effect.flatMap((ended) => this.#resultOf(ended)),
      // The server has taken the call: whatever it answers about the task, the call is not made again.
      Effect.mapError(
        ({ isOtherRevision, reason }) => new ServerFailure({ reason, isOtherRevision, isSessionGone: false })
      )
    )
  }

  #resultOf({ error, result, status, ...task }: ServerTask): Effect.Effect<CallToolResult | undefined, ServerFailure> {
    if (status === "cancelled") return Effect.succeed(cancelled({ status, ...task }))
    if (status === "input_required") return Effect.undefined
    if (error !== undefined) {
      // As an answer to the call: so it is redacted as one.
      return this.#ask(() => Promise.reject(new ProtocolError(error.code, error.message)))
    }
    if (result === undefined) return this.#fetchResult(task.taskId)
    return Effect.flatMap(
      Effect.promise(async () => specTypeSchemas.CallToolResult["~standard"].validate(result)),
      (read) => (read.issues === undefined ? Effect.succeed(read.value) : Effect.fail(notAResult))
    )
  }

  #fetchResult(taskId: string): Effect.Effect<CallToolResult, ServerFailure> {
    const request = { method: "tasks/result", params: { taskId } }
    return this.#ask((options) => this.#client.request(request, specTypeSchemas.CallToolResult, options))
  }

  /** Tells the server that nobody wants the task any more, and waits for nothing. */
  #cancel({ taskId }: { readonly taskId: string }): void {
    const request = { method: "tasks/cancel", params: { taskId } }
    void this.#client.request(request, Anything, { timeout: cancelTimeout }).catch(() => undefined)
  }
}
