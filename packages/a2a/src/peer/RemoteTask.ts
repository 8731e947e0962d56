import type { PeerCall, RemoteIds } from "@bowline/runtime/remote/PeerClient"
import { Effect, Exit, Fiber, Result, type Schema, Scope } from "effect"
import type { Params } from "../dialect/Codec.ts"
import type { Events } from "../rpc/Events.ts"
import { garbled, type ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import type { StreamReply } from "../rpc/JsonRpc.ts"
import { standingOf } from "../task/Standing.ts"
import { since, type Task } from "../task/Task.ts"
import type { PeerLink } from "./PeerLink.ts"
import type { PeerCalls } from "./PeerCalls.ts"
import { statesOf } from "./TaskStream.ts"

/**
 * What the call knows of its remote task, and so what it has to cancel when it ends without a result.
 *
 *     none ──the request leaves──▶ unnamed, or open where the id is already known
 *     open from the start, where the call resumes a task that another process started
 *     unnamed | open ──the request never arrived, or was refused──▶ none
 *     unnamed | open ──an answer──▶ open, or none where the peer says that the task has ended
 */
export type RemoteState =
  | { readonly _tag: "none" }
  | { readonly _tag: "unnamed" }
  | { readonly _tag: "open"; readonly taskId: string }

const none: RemoteState = { _tag: "none" }
const sent = (taskId: string | null): RemoteState => (taskId === null ? { _tag: "unnamed" } : { _tag: "open", taskId })

/** A request whose answer says which task it has started, and the connection that the answer comes over. */
interface Starting {
  readonly request: Fiber.Fiber<unknown, ExchangeError>
  readonly connection: Scope.Closeable
}

/** Closes a connection that brings nothing at once, instead of with the scope. */
const closedUnlessBegun = Effect.fnUntraced(function* <A, E>(begun: Effect.Effect<A, E, Scope.Scope>) {
  const scope = yield* Scope.fork(yield* Effect.scope)
  return yield* Effect.onError(Scope.provide(begun, scope), (cause) => Scope.close(scope, Exit.failCause(cause)))
})

/** The task that a message started, and, where the peer streams, its next states. */
export interface Opened {
  readonly task: Task
  readonly next?: Effect.Effect<Task, ExchangeError>
}

/** The remote task of one call. An answer is noted before an interruption takes effect, so the state is never behind. */
export class RemoteTask {
  #state: RemoteState = none
  #starting: Starting | undefined
  #isAbandoned = false
  readonly #link: PeerLink
  readonly #calls: PeerCalls
  /** Of the message that was sent last, or is to be sent. */
  #messageId: string
  /** The idempotency key of the message. */
  #key: string

  constructor(
    link: PeerLink,
    calls: PeerCalls,
    { idempotencyKey, resumes, taskId }: Pick<PeerCall, "idempotencyKey" | "resumes" | "taskId">
  ) {
    this.#messageId = taskId
    this.#key = idempotencyKey ?? taskId
    this.#link = link
    this.#calls = calls
    if (resumes !== undefined) this.#state = sent(resumes.taskId)
  }

  get state(): RemoteState {
    return this.#state
  }

  note({ id, state }: Task): void {
    this.#state = standingOf(state)._tag === "ended" ? none : sent(id)
  }

  /** From now on the task goes on with this message, the answer to what the peer has asked. */
  goOn(messageId: string): void {
    this.#messageId = messageId
    this.#key = messageId
  }

  /** An earlier call has told what was said before its message. */
  ownPart(task: Task): Task {
    return since(task, this.#messageId)
  }

  /** A task that does not decode still has to be cancelled. */
  noteGarbled(method: string, result: Schema.Json, issue: Schema.SchemaError): ExchangeError {
    const taskId = this.#link.codec.taskIdOf(result)
    if (taskId !== null) this.#state = sent(taskId)
    return garbled(method, { message: this.#link.target.auth.redaction.text(issue.message) })
  }

  /**
   * Lets nothing more leave, after the call has been interrupted: the message is dropped where it still waits for its connection, and neither
   * a redirect nor a refusal of the token is followed. What it returns waits for the answer to a message that has left, so that `state`
   * names the task; undefined if the call had its answer.
   */
  abandon(): Effect.Effect<void> | undefined {
    this.#isAbandoned = true
    const starting = this.#starting
    return starting && Effect.asVoid(Fiber.await(starting.request))
  }

  /** Ends the request that starts the task, if the call has been interrupted before its answer came. */
  readonly drop: Effect.Effect<void> = Effect.suspend(() => {
    if (this.#starting === undefined) return Effect.void
    const { connection, request } = this.#starting
    return Effect.andThen(Fiber.interrupt(request), Scope.close(connection, Exit.void))
  })

  /** Sends a message that the peer answers once. */
  send(params: Params, ids: RemoteIds): Effect.Effect<Opened, ExchangeError, Scope.Scope> {
    const method = this.#link.codec.methods.send
    const request = this.#calls.send(this.#link, this.#message(ids), params)
    const opened = this.#noting(request, (result) => this.#read(method, result))
    return this.#starts(Effect.map(opened, (task) => ({ task })))
  }

  /** Sends a message that the peer answers with a stream, for as long as the scope is open, or once. */
  stream(params: Params, ids: RemoteIds): Effect.Effect<Opened, ExchangeError, Scope.Scope> {
    const request = this.#calls.stream(this.#link, this.#message(ids), params)
    return this.#starts(this.#opens(this.#link.codec.methods.stream, request))
  }

  /** Subscribes to the stream of the task again. */
  subscribe(taskId: string): Effect.Effect<Opened, ExchangeError, Scope.Scope> {
    const { subscribe } = this.#link.codec.methods
    return closedUnlessBegun(this.#opens(subscribe, this.#calls.subscribe(this.#link, taskId), taskId))
  }

  get(taskId: string): Effect.Effect<Task, ExchangeError> {
    const method = this.#link.codec.methods.get
    return this.#noting(this.#calls.get(this.#link, taskId), (result) => this.#read(method, result, taskId))
  }

  #noting<A, B, R>(
    request: Effect.Effect<A, ExchangeError, R>,
    note: (answer: A) => Result.Result<B, ExchangeError>
  ): Effect.Effect<B, ExchangeError, R> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(restore(request), (answer) => Effect.fromResult(note(answer)))
    )
  }

  /** A request that may start the task leaves only while the call runs. */
  #message(ids: RemoteIds) {
    const before = this.#state
    const tryLeave = () => {
      this.#state = this.#isAbandoned ? before : sent(ids.taskId)
      return !this.#isAbandoned
    }
    return { id: this.#messageId, key: this.#key, tryLeave }
  }

  /**
   * Makes a request that may start the task. Where it never arrived or was refused, there is no task. The request runs in a
   * fiber of its own: where the call is interrupted, `drop` ends it.
   */
  #starts<A>(request: Effect.Effect<A, ExchangeError, Scope.Scope>): Effect.Effect<A, ExchangeError, Scope.Scope> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.gen({ self: this }, function* () {
        const connection = Scope.makeUnsafe()
        // A task that asks is open, whatever becomes of the answer.
        const before = this.#state
        const begun = Effect.tapError(Scope.provide(request, connection), ({ verdict }) =>
          Effect.sync(() => {
            if (verdict === "unsent" || verdict === "refused") this.#state = before
          })
        )
        const starting = yield* Effect.forkDetach(Effect.interruptible(begun), { startImmediately: true })
        this.#starting = { request: starting, connection }
        const exit = yield* restore(Fiber.await(starting))
        this.#starting = undefined
        if (Exit.isFailure(exit)) yield* Scope.close(connection, exit)
        else yield* Effect.addFinalizer((end) => Scope.close(connection, end))
        return yield* exit
      })
    )
  }

  #opens(
    method: string,
    request: Effect.Effect<StreamReply, ExchangeError, Scope.Scope>,
    taskId?: string
  ): Effect.Effect<Opened, ExchangeError, Scope.Scope> {
    const opened = this.#noting(request, (reply): Result.Result<Opened | Events, ExchangeError> =>
      reply._tag === "Events"
        ? Result.succeed(reply.events)
        : Result.map(this.#read(method, reply.result, taskId), (task) => ({ task }))
    )
    return Effect.flatMap(opened, (reply) => {
      if ("task" in reply) return Effect.succeed(reply)
      const next = statesOf(method, this.#link, this, reply, taskId)
      return Effect.map(next, (task) => ({ task, next }))
    })
  }

  #read(method: string, result: Schema.Json, taskId?: string): Result.Result<Task, ExchangeError> {
    const task = this.#link.codec.taskOf(result)
    if (Result.isFailure(task)) return Result.fail(this.noteGarbled(method, result, task.failure))
    if (taskId !== undefined && task.success.id !== taskId) {
      return Result.fail(garbled(method, { message: "It is of another task" }))
    }
    this.note(task.success)
    return Result.succeed(this.ownPart(task.success))
  }
}
