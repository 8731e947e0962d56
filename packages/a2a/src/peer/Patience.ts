import { Unreachable } from "@bowline/domain/peer/PeerError"
import { Duration, Effect, Option, Schedule } from "effect"
import { failure, isPassing, type ExchangeError } from "../http/ExchangeError.ts"
import { pollSchedule } from "../task/PollSchedule.ts"

/** For how long a peer may give no good answer. */
export const usual = Duration.seconds(30)

/** The waits between the requests for one thing. What went before decides how long the next wait is. */
export const pauses = Effect.map(
  Schedule.toStepWithSleep(pollSchedule),
  (wait) =>
    (after: ExchangeError["after"] = Option.none()) =>
      Effect.orDie(wait(after))
)

/**
 * Asks after a pause, and again and again, until there is a good answer, or the patience is at its end. `ask` gets the failure
 * of the time before.
 */
export const persist = <A>(
  pause: Effect.Success<typeof pauses>,
  patience: Duration.Duration,
  first: ExchangeError,
  ask: (missed: ExchangeError) => Effect.Effect<A, ExchangeError>
): Effect.Effect<A, ExchangeError> => {
  let missed = first
  const again: Effect.Effect<A, ExchangeError> = Effect.suspend(() => pause(missed.after)).pipe(
    Effect.andThen(Effect.suspend(() => ask(missed))),
    Effect.catchIf(isPassing, (error) => {
      missed = error
      return again
    })
  )
  return Effect.timeoutOrElse(again, {
    duration: patience,
    orElse: () => {
      const { reason, verdict } = missed
      const message = `The peer gave no good answer for ${Duration.toSeconds(patience)} seconds: ${reason.message}`
      const code = reason._tag === "unreachable" ? reason.code : undefined
      return Effect.fail(failure(verdict, new Unreachable({ message, code })))
    }
  })
}

/** Asks, and again as `persist` does, where the failure may pass. */
export const patiently = Effect.fnUntraced(function* <A>(
  patience: Duration.Duration,
  ask: (missed?: ExchangeError) => Effect.Effect<A, ExchangeError>
): Effect.fn.Return<A, ExchangeError> {
  const pause = yield* pauses
  return yield* Effect.catchIf(ask(), isPassing, (first) => persist(pause, patience, first, ask))
})
