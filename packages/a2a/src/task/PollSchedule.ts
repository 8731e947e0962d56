import { Duration, Effect, Option, Random, Schedule } from "effect"

const shortest = 50
const longest = 5_000

/**
 * Milliseconds until the next poll: 50 at first, then 0.3 × the time waited so far, from 50 to 5,000, ±10 %. `random` is
 * 0..1.
 */
export const pollDelay = (waited: number, random: number): number =>
  waited === 0 ? shortest : Math.round(Math.min(Math.max(0.3 * waited, shortest), longest) * (0.9 + 0.2 * random))

/** When to poll. Its input is how long the peer asked to be left alone, if it did. */
export const pollSchedule = Schedule.forever.pipe(
  Schedule.setInputType<Option.Option<Duration.Duration>>(),
  Schedule.modifyDelay(({ elapsed, input }) =>
    Effect.map(Random.next, (random) => {
      const delay = Duration.millis(pollDelay(elapsed, random))
      return Option.match(input, { onNone: () => delay, onSome: Duration.max(delay) })
    })
  )
)

/**
 * When to send again what never arrived. A peer that is being restarted is back within seconds; one that is not there should
 * be said so soon.
 */
export const sendSchedule = Schedule.min([Schedule.exponential("50 millis"), Schedule.spaced("1 second")]).pipe(
  Schedule.jittered,
  Schedule.upTo({ duration: "5 seconds" })
)
