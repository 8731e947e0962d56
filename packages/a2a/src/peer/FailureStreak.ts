/** How many calls in a row have to fail, and within how long, until no more are made. */
const failures = 5
const windowMs = 60_000

/**
 * The last failures of an endpoint in a row, in milliseconds since 1970, the latest one last. `generation` is the one of the
 * breaker in which they were counted.
 */
export interface FailureStreak {
  readonly generation: number
  readonly times: ReadonlyArray<number>
}

/** One more failure. A call that began before the breaker has opened last does not count any more. */
export const failed = (before: FailureStreak | undefined, generation: number, now: number): FailureStreak => {
  if (before === undefined || before.generation < generation) return { generation, times: [now] }
  if (before.generation > generation) return before
  return { generation, times: [...before.times, now].slice(-failures) }
}

/** Whether that is too many within too short a time. */
export const isTooMany = ({ times }: FailureStreak): boolean => {
  const [first = 0] = times
  return times.length === failures && (times.at(-1) ?? 0) - first <= windowMs
}

/** Whether the streak can't become too many any more. */
export const isStale = ({ times }: FailureStreak, now: number): boolean => now - (times.at(-1) ?? 0) > windowMs
