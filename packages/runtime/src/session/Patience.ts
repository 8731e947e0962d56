import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { Duration, Effect, Schedule } from "effect"

/** How long a plan waits for a database that is away before it ends. */
export const patience = Duration.seconds(30)

const noAnswer = new StorageError({ reason: new Unavailable({ cause: `no answer for ${Duration.format(patience)}` }) })

/** Waits for the database, until the patience is over. */
export const withPatience = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | StorageError, R> =>
  Effect.timeoutOrElse(effect, { duration: patience, orElse: () => Effect.fail(noAnswer) })

/** Asks a database that is away again, until the patience is over. */
export const patiently = <A, R>(effect: Effect.Effect<A, StorageError, R>): Effect.Effect<A, StorageError, R> =>
  withPatience(
    Effect.retry(effect, { while: ({ reason }) => reason.isRetryable, schedule: Schedule.spaced("500 millis") })
  )
