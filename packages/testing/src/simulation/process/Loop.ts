import type { Moment } from "../scenario/Observed.ts"
import type { SeededRandom } from "../scenario/SeededRandom.ts"

/** Something that happens in one process at one time. */
interface Timer {
  readonly at: number
  readonly order: number
  readonly ring: () => void
  isCancelled: boolean
}

/** What the loop runs: one task at a time of whoever has some. */
export interface Runner {
  readonly isReady: () => boolean
  readonly step: () => void
}

const isBefore = (one: Timer, other: Timer): boolean =>
  one.at === other.at ? one.order < other.order : one.at < other.at

/** A binary heap. */
class Timers {
  readonly #heap: Array<Timer> = []

  get next(): Timer | undefined {
    return this.#heap[0]
  }

  add(timer: Timer): void {
    const heap = this.#heap
    let index = heap.push(timer) - 1
    while (index > 0) {
      const up = (index - 1) >> 1
      const parent = heap[up]
      if (parent === undefined || !isBefore(timer, parent)) break
      heap[index] = parent
      index = up
    }
    heap[index] = timer
  }

  take(): Timer | undefined {
    const heap = this.#heap
    const first = heap[0]
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return first
    let index = 0
    for (;;) {
      let down = 2 * index + 1
      let child = heap[down]
      const right = heap[down + 1]
      if (child === undefined) break
      if (right !== undefined && isBefore(right, child)) {
        child = right
        down++
      }
      if (!isBefore(child, last)) break
      heap[index] = child
      index = down
    }
    heap[index] = last
    return first
  }
}

/** How many tasks may run at one instant. Beyond that somebody waits for nothing in a circle. */
const maxTasksAtOnce = 1_000_000

/** Captured before a run forbids them. */
const realImmediate = setImmediate
// @effect-diagnostics-next-line newPromise:off
const microtasks = (): Promise<void> => new Promise((resolve) => void realImmediate(resolve))

/**
 * The event loop of a whole world. Time passes only when nobody has anything left to do at this instant, and then it jumps to the next
 * timer. Whose task comes next is drawn, so the order of tasks of different processes is one of the many that real machines have.
 */
export class Loop {
  /** In milliseconds since the run began. */
  now = 0
  /** How many tasks have run. */
  tasks = 0
  readonly #random: SeededRandom
  readonly #runners: Array<Runner> = []
  readonly #timers = new Timers()
  #order = 0

  constructor(random: SeededRandom) {
    this.#random = random
  }

  add(runner: Runner): void {
    this.#runners.push(runner)
  }

  remove(runner: Runner): void {
    const index = this.#runners.indexOf(runner)
    if (index >= 0) this.#runners.splice(index, 1)
  }

  /** This instant; no two observations have the same. */
  moment(): Moment {
    return { at: this.now, order: ++this.#order }
  }

  /** Rings in so many milliseconds. Gives what cancels that. */
  after(ms: number, ring: () => void): () => void {
    const timer: Timer = { at: this.now + Math.max(ms, 0), order: ++this.#order, ring, isCancelled: false }
    this.#timers.add(timer)
    return () => void (timer.isCancelled = true)
  }

  /** Runs until it is over. Fails when nothing will ever happen any more, and when time does not pass any more. */
  async run(isOver: () => boolean): Promise<void> {
    let before = this.tasks
    while (!isOver()) {
      const runner = this.#pick()
      if (runner !== undefined) {
        if (this.tasks - before >= maxTasksAtOnce) throw new Error(`Time does not pass any more, at ${this.now} ms`)
        this.tasks++
        runner.step()
        continue
      }
      await microtasks()
      if (this.#runners.some(({ isReady }) => isReady())) continue
      before = this.tasks
      if (!this.#passTime()) throw new Error(`Nothing will ever happen any more, at ${this.now} ms`)
    }
  }

  #pick(): Runner | undefined {
    let count = 0
    let only: Runner | undefined
    for (const runner of this.#runners) {
      if (!runner.isReady()) continue
      count++
      only = runner
    }
    if (count < 2) return only
    let drawn = this.#random.int(0, count - 1)
    return this.#runners.find(({ isReady }) => isReady() && drawn-- === 0)
  }

  #passTime(): boolean {
    let rung = false
    for (;;) {
      const next = this.#timers.next
      if (next === undefined) return rung
      if (!next.isCancelled && rung && next.at > this.now) return true
      this.#timers.take()
      if (next.isCancelled) continue
      this.now = Math.max(this.now, next.at)
      rung = true
      next.ring()
    }
  }
}
