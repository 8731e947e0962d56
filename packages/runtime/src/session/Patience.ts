import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Duration, Effect, Schedule } from "effect"

/** How long a plan waits for a database that is away before it ends. */
export const patience = Duration.seconds(30)

/** Asks a database that is away again, until the patience is over. */
export const patiently = <A, R>(effect: Effect.Effect<A, StorageError, R>): Effect.Effect<A, StorageError, R> =>
  Effect.retry(effect, {
    while: ({ reason }) => reason.isRetryable,
    schedule: Schedule.spaced("500 millis").pipe(Schedule.upTo({ duration: patience }))
  })
