/** So many failures in a row, within so many milliseconds, open the circuit. */
const failures = 5
const windowMs = 60_000

/**
 * The last failures of an endpoint in a row, in milliseconds since 1970, the latest one last. `generation` is that of the
 * breaker when they were counted.
 */
export interface FailureStreak {
  readonly generation: number
  readonly times: ReadonlyArray<number>
}

/** Adds a failure. A call that began before the breaker last opened does not count. */
export const failed = (before: FailureStreak | undefined, generation: number, now: number): FailureStreak => {
  if (before === undefined || before.generation < generation) return { generation, times: [now] }
  if (before.generation > generation) return before
  return { generation, times: [...before.times, now].slice(-failures) }
}

/** Whether the failures open the circuit. */
export const isTooMany = ({ times }: FailureStreak): boolean => {
  const [first = 0] = times
  return times.length === failures && (times.at(-1) ?? 0) - first <= windowMs
}

/** Whether the streak is too old to open the circuit. */
export const isStale = ({ times }: FailureStreak, now: number): boolean => now - (times.at(-1) ?? 0) > windowMs
