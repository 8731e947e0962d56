/** Plans that stream within such a time of each other, in milliseconds, stream at once. */
const windowMs = 250

/** How many milliseconds a piece of text lingers for each plan that streams. */
const shareMs = 0.21

/** How pieces of texts linger. Times are in milliseconds. */
export interface Linger {
  /** The least between the beginnings of two batches that have nothing else. */
  readonly spacing: number
  /** So many plans stream without a longer wait than that. */
  readonly free: number
  /** The longest that a piece lingers for company of its own plan. */
  readonly longest: number
}

/** On a database: 100 batches a second, and at 50 pieces a second, 100 plans write a row for two pieces each, 300 plans for four. */
export const durable: Linger = { spacing: 10, free: 0, longest: 80 }

/** In memory a batch costs next to nothing. Only with many plans do a wake and a write for each piece cost more than company is worth. */
export const inMemory: Linger = { spacing: 0, free: 100, longest: 60 }

/** Counts the plans that stream at the same time: each of them once, however many pieces it has. */
export class Streams {
  #since = -Infinity
  #before = 0
  #now = new Set<unknown>()

  add(plan: unknown, now: number): void {
    this.#turn(now)
    this.#now.add(plan)
  }

  count(now: number): number {
    this.#turn(now)
    return Math.max(this.#before, this.#now.size)
  }

  #turn(now: number): void {
    const age = now - this.#since
    if (age < windowMs) return
    this.#before = age < 2 * windowMs ? this.#now.size : 0
    this.#now = new Set()
    this.#since = now
  }
}

/** How many milliseconds a piece of text waits for more of its own plan, beside so many that stream. A plan that streams alone never waits. */
export const company = ({ free, longest }: Linger, streams: number): number =>
  streams < 2 ? 0 : Math.max(0, Math.min(longest, (streams - free) * shareMs))

/** When pieces of texts are written, the first of which came at `first`. The last batch began at `began`. */
export const until = (linger: Linger, streams: number, first: number, began: number): number =>
  Math.max(first + company(linger, streams), began + (streams < 2 ? 0 : Math.min(linger.spacing, streams)))
