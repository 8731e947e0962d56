import type { Clock } from "effect"

/** Milliseconds since some instant, for durations: unlike the time of day they neither jump nor go back when somebody sets the clock. */
export const millis = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000
