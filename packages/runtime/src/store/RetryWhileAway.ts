import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { Duration, Effect } from "effect"
import * as Monotonic from "../process/Monotonic.ts"

/** How long a plan waits for a database that is away. After that the plan ends. */
export const awayLimit = Duration.seconds(30)

/** Fails with `Unavailable` when `effect` takes longer than `awayLimit` less `waited`, the time that has passed already. */
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
 * Asks the database. While it is away, asks again every 500 ms, up to `awayLimit` in all. The store limits the time of each try, so
 * that no timer is needed here when the database answers the first one.
 */
export const retryWhileAway = <A, E, R>(ask: Effect.Effect<A, E, R>): Effect.Effect<A, E | StorageError, R> =>
  Effect.clockWith((clock) => {
    const since = Monotonic.millis(clock)
    return Effect.catchIf(ask, isAway, () => {
      const again = Effect.retry(Effect.delay(ask, pause), { while: isAway })
      return withinAwayLimit(again, Duration.millis(Monotonic.millis(clock) - since))
    })
  })

const pause = "500 millis"
