import { Clock, Effect } from "effect"

/** Milliseconds since some instant, for durations: unlike the time of day they neither jump nor go back when somebody sets the clock. */
export const millis = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000

/** The same, by the clock of the fiber. */
export const now: Effect.Effect<number> = Effect.clockWith((clock) => Effect.succeed(millis(clock)))
