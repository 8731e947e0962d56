/** Where the client takes its time and its randomness from. */
export interface Clock {
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** Runs it once after so many milliseconds, unless what it gives back is called before. */
  readonly after: (ms: number, run: () => void) => () => void
  /** A number from 0 up to 1. */
  readonly random: () => number
}

/** Timers fire at once if they are longer. */
const maxTimer = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  after: (ms, run) => {
    const timer: ReturnType<typeof setTimeout> | number = setTimeout(run, Math.min(ms, maxTimer))
    // In Node a timer keeps the process alive, elsewhere it is a number.
    if (typeof timer === "object") timer.unref()
    return () => clearTimeout(timer)
  },
  random: () => Math.random()
}

/**
 * Keeps Node.js alive until the promise settles: timers do not, and a process without anything else to do would end, as if all were done.
 * Elsewhere it changes nothing.
 */
export const holdProcess = <A>(promise: Promise<A>): Promise<A> => {
  const timer = setInterval(() => undefined, maxTimer)
  const release = () => clearInterval(timer)
  promise.then(release, release)
  return promise
}

/** The time for something is over. */
export class TimedOut extends Error {
  override readonly name = "TimedOut"
}

/**
 * Waits for a promise: no longer than so many milliseconds (`TimedOut`), and no longer than the signal lives (its reason). A promise
 * that nobody waits for any more may still fail: nothing comes of it.
 */
export const within = async <A>(clock: Clock, signal: AbortSignal, ms: number, promise: Promise<A>): Promise<A> => {
  const ended = Promise.withResolvers<never>()
  const leave = () => ended.reject(signal.reason)
  const cancel = clock.after(ms, () => ended.reject(new TimedOut(`No answer within ${ms} ms`)))
  signal.addEventListener("abort", leave)
  if (signal.aborted) leave()
  try {
    return await Promise.race([promise, ended.promise])
  } finally {
    cancel()
    signal.removeEventListener("abort", leave)
  }
}

declare const addEventListener: EventTarget["addEventListener"] | undefined

/** Resolves when the browser finds the network again; elsewhere never. */
const online = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (typeof addEventListener === "function") addEventListener("online", () => resolve(), { once: true, signal })
  })

/** Sleeps, until the network is there again at the longest. Fails with the reason of the signal. */
export const sleep = async (clock: Clock, signal: AbortSignal, ms: number): Promise<void> => {
  const listening = new AbortController()
  try {
    await within(clock, signal, ms, online(listening.signal))
  } catch (error) {
    if (!(error instanceof TimedOut)) throw error
  } finally {
    listening.abort()
  }
}
