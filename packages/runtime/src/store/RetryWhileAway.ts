import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { Duration, Effect, Result } from "effect"

/** How long a plan waits for a database that is away before it ends. */
export const awayLimit = Duration.seconds(30)

/** Waits for the database as long as a plan does, less what it has waited already, and then fails with `Unavailable`. */
export const withinAwayLimit = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  waited: Duration.Duration = Duration.zero
): Effect.Effect<A, E | StorageError, R> =>
  Effect.timeoutOrElse(effect, {
    duration: Duration.subtract(awayLimit, waited),
    orElse: () =>
      Effect.fail(
        new StorageError({ reason: new Unavailable({ cause: `no answer for ${Duration.format(awayLimit)}` }) })
      )
  })

const isAway = (error: unknown): boolean => error instanceof StorageError && error.reason.isRetryable

/**
 * Asks the database, and while it is away asks again every 500 ms, for as long as a plan waits for it. The store bounds each
 * try, so that a database that answers at once costs no timer here.
 */
export const retryWhileAway = Effect.fnUntraced(function* <A, E, R>(
  ask: Effect.Effect<A, E, R>
): Effect.fn.Return<A, E | StorageError, R> {
  const [took, first] = yield* Effect.timed(Effect.result(ask))
  if (Result.isSuccess(first)) return first.success
  if (!isAway(first.failure)) return yield* Effect.fail(first.failure)
  const again = Effect.retry(Effect.delay(ask, pause), { while: isAway })
  return yield* withinAwayLimit(again, took)
})

const pause = "500 millis"
