import type { PlanFrame } from "@bowline/runtime/store/EventRow"
import { Cause, Clock, Effect, Fiber } from "effect"
import { code, errorOf, type Id, resultOf, type RpcError } from "./JsonRpc.ts"
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

/** As often a call says what it does, in milliseconds: at most, and at least. */
const leastMs = 250
const mostMs = 10_000

const failure = { code: code.internal, message: "The gateway failed: its log has the cause" }

/** Says what a call does. The numbers grow, and mean nothing else: nobody knows how long a plan takes. */
class Reporter {
  readonly #plan = new PlanProgress()
  readonly #token: unknown
  readonly #clock: Clock.Clock
  readonly #send: (message: object | "ping") => void
  #count = 0
  #lastAt = Number.NEGATIVE_INFINITY

  constructor(token: unknown, clock: Clock.Clock, send: (message: object | "ping") => void) {
    this.#token = token
    this.#clock = clock
    this.#send = send
  }

  report(): void {
    this.#lastAt = this.#clock.currentTimeMillisUnsafe()
    if (this.#token === undefined) return this.#send("ping")
    const params = { progressToken: this.#token, progress: ++this.#count, message: this.#plan.message }
    this.#send({ jsonrpc: "2.0", method: "notifications/progress", params })
  }

  readonly onFrame = (frame: PlanFrame): void => {
    if (this.#token === undefined || !this.#plan.next(frame)) return
    if (this.#clock.currentTimeMillisUnsafe() - this.#lastAt >= leastMs) this.report()
  }
}

/** The calls that run in this process. Each of them ends when its request does, and some when their client says so. */
export class RunningCalls {
  readonly #fibers = new Map<string, Fiber.Fiber<unknown, unknown>>()

  /** Starts a call. Its messages go to `send`: its progress, and its response unless it is interrupted before. */
  readonly start = (call: RunningCall, send: (message: object | "ping") => void): Effect.Effect<void> =>
    Effect.gen({ self: this }, function* () {
      const reporter = new Reporter(call.token, yield* Clock.Clock, send)
      const reporting = Effect.forever(
        Effect.andThen(
          Effect.sleep(mostMs),
          Effect.sync(() => reporter.report())
        )
      )
      const responding = Effect.raceFirst(call.run(reporter.onFrame), reporting).pipe(
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

  /** Ends the call that this owner has made, if it still runs. */
  cancel(owner: string): Effect.Effect<void> {
    const fiber = this.#fibers.get(owner)
    return fiber === undefined ? Effect.void : Fiber.interrupt(fiber)
  }
}
