import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { Duration, Effect, Fiber, Option, Schedule } from "effect"

/** How long a plan waits for a database that is away before it ends. */
export const patience = Duration.seconds(30)

const noAnswer = (within: Duration.Input) =>
  new StorageError({
    reason: new Unavailable({ cause: `no answer for ${Duration.format(Duration.fromInputUnsafe(within))}` })
  })

/**
 * The answer of the database, if it comes in time. What is given up is not waited for: on a connection that is dead, even to
 * end a statement takes for ever.
 */
export const answered = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  within: Duration.Input = patience
): Effect.Effect<A, E | StorageError, R> =>
  Effect.gen(function* () {
    // Detached: both exits interrupt it, and neither waits for it.
    const fiber = yield* Effect.forkDetach(effect, { startImmediately: true })
    const exit = yield* Fiber.await(fiber).pipe(
      Effect.timeoutOption(within),
      Effect.onInterrupt(() => Effect.sync(() => fiber.interruptUnsafe()))
    )
    if (Option.isSome(exit)) return yield* exit.value
    fiber.interruptUnsafe()
    return yield* noAnswer(within)
  })

/** Asks a database that is away again, until the patience is over. */
export const patiently = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | StorageError, R> =>
  answered(
    Effect.retry(effect, {
      while: (error) => error instanceof StorageError && error.reason.isRetryable,
      schedule: Schedule.spaced("500 millis")
    })
  )
