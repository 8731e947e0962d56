const shortest = 50
const longest = 5_000

/**
 * Milliseconds until a remote task is asked for again: 50 at first, then 0.3 × the time that has passed, from 50 to 5,000, ±10 %. `random` is
 * 0..1.
 */
export const pollDelay = (elapsed: number, random: number): number =>
  elapsed === 0 ? shortest : Math.round(Math.min(Math.max(0.3 * elapsed, shortest), longest) * (0.9 + 0.2 * random))
