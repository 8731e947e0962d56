import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import { Cause, Clock, Effect, Fiber, Latch, Queue, type Scope, Stream } from "effect"
import { code, errorOf, type Id, resultOf, type RpcError } from "./RpcMessage.ts"
import { PlanProgress } from "./PlanProgress.ts"

/** A call of a tool that may take a while. */
export interface RunningCall {
  readonly id: Id
  /** The client's name for the progress of the call. Without it the client wants none. */
  readonly token: unknown
  /** Who may cancel the call by another request: the client that sent this one, if it has a session. */
  readonly owner: string | undefined
  readonly run: (onFrame: (frame: PlanFrame) => void) => Effect.Effect<object, RpcError>
}

/** Responses, what calls say on their way, and pings. */
export type Message = object | "ping"

/** How many messages may wait for a client that does not read. Beyond that it misses what its calls say on their way. */
const maxWaiting = 100

const isResponse = (message: Message): boolean => message !== "ping" && !("method" in message)

/** As often a call says what it does, in milliseconds: at most, and at least. */
const leastMs = 250
const mostMs = 10_000

const failure = { code: code.internal, message: "The gateway failed: its log has the cause" }

/** Says what a call does. The numbers grow, and mean nothing else: nobody knows how long a plan takes. */
class Reporter {
  readonly #plan = new PlanProgress()
  readonly #token: unknown
  readonly #clock: Clock.Clock
  readonly #send: (message: Message) => void
  /** Open while a message waits, because it came too soon after another one. */
  readonly #late = Latch.makeUnsafe(false)
  #count = 0
  #lastAt = Number.NEGATIVE_INFINITY

  constructor(token: unknown, clock: Clock.Clock, send: (message: Message) => void) {
    this.#token = token
    this.#clock = clock
    this.#send = send
  }

  report(): void {
    this.#lastAt = Monotonic.millis(this.#clock)
    this.#late.closeUnsafe()
    if (this.#token === undefined) return this.#send("ping")
    const params = { progressToken: this.#token, progress: ++this.#count, message: this.#plan.message }
    this.#send({ jsonrpc: "2.0", method: "notifications/progress", params })
  }

  readonly onFrame = (frame: PlanFrame): void => {
    if (this.#token === undefined || !this.#plan.next(frame)) return
    if (this.#waitMs() <= 0) this.report()
    else this.#late.openUnsafe()
  }

  #waitMs(): number {
    return this.#lastAt + leastMs - Monotonic.millis(this.#clock)
  }

  /** Says what waits, as soon as it may: the newest of it. */
  readonly catchUp: Effect.Effect<void> = Effect.suspend(() =>
    this.#late.await.pipe(
      Effect.flatMap(() => Effect.sleep(this.#waitMs())),
      Effect.andThen(
        Effect.sync(() => {
          // Another frame may have been faster.
          if (this.#waitMs() <= 0) this.report()
        })
      )
    )
  )
}

/** The calls that run in this process. Each of them ends when its request does, and some when their client says so. */
export class RunningCalls {
  readonly #fibers = new Map<string, Fiber.Fiber<unknown, unknown>>()

  /** Starts a call. Its messages go to `send`: its progress, and its response unless it is interrupted before. */
  readonly start = (call: RunningCall, send: (message: Message) => void): Effect.Effect<void> =>
    Effect.gen({ self: this }, function* () {
      const reporter = new Reporter(call.token, yield* Clock.Clock, send)
      const reporting = Effect.forever(
        Effect.andThen(
          Effect.sleep(mostMs),
          Effect.sync(() => reporter.report())
        )
      )
      const run = call.run(reporter.onFrame)
      const responding = Effect.raceAllFirst([run, reporting, Effect.forever(reporter.catchUp)]).pipe(
        Effect.map((result) => resultOf(call.id, result)),
        Effect.catchTag("RpcError", (error) => Effect.succeed(errorOf(call.id, error))),
        Effect.catchCauseIf(
          (cause) => !Cause.hasInterruptsOnly(cause),
          (cause) => Effect.as(Effect.logError("request_failed", cause), errorOf(call.id, failure))
        ),
        Effect.tap((response) => Effect.sync(() => send(response)))
      )
      const fiber = yield* Effect.forkChild(responding)
      const { owner } = call
      if (owner !== undefined) {
        this.#fibers.set(owner, fiber)
        fiber.addObserver(() => void (this.#fibers.get(owner) === fiber && this.#fibers.delete(owner)))
      }
      yield* Fiber.await(fiber)
    })

  /** What is known already, and then what the calls say until all of them have ended. The end of the scope is theirs. */
  readonly stream = (
    known: ReadonlyArray<object>,
    calls: ReadonlyArray<RunningCall>
  ): Effect.Effect<Stream.Stream<Message>, never, Scope.Scope> =>
    Effect.gen({ self: this }, function* () {
      const messages = yield* Queue.unbounded<Message, Cause.Done>()
      Queue.offerAllUnsafe(messages, known)
      const send = (message: Message) => {
        if (isResponse(message) || Queue.sizeUnsafe(messages) < maxWaiting) Queue.offerUnsafe(messages, message)
      }
      yield* Effect.forEach(calls, (call) => this.start(call, send), { concurrency: "unbounded", discard: true }).pipe(
        Effect.ensuring(Queue.end(messages)),
        Effect.forkScoped
      )
      return Stream.fromQueue(messages)
    })

  /** The responses of the calls, when all of them have ended. */
  readonly responses = (calls: ReadonlyArray<RunningCall>): Effect.Effect<ReadonlyArray<Message>> =>
    Effect.suspend(() => {
      const responses: Array<Message> = []
      const send = (message: Message) => {
        if (isResponse(message)) responses.push(message)
      }
      return Effect.as(
        Effect.forEach(calls, (call) => this.start(call, send), { concurrency: "unbounded", discard: true }),
        responses
      )
    })

  /** Ends the call that this owner has made. Tells whether it ran here. */
  cancel(owner: string): Effect.Effect<boolean> {
    const fiber = this.#fibers.get(owner)
    return fiber === undefined ? Effect.succeed(false) : Effect.as(Fiber.interrupt(fiber), true)
  }
}
