import { Effect } from "effect"
import type { Load } from "../process/Process.ts"
import { Replica, type Surroundings } from "./Replica.ts"

/** How soon a supervisor starts a process again that could not start, in milliseconds. */
const restartMs = 2_000

/** What a process has more than an idle one. */
export const excess = (load: Load, idle: Load) =>
  (["fiber", "timer"] as const).flatMap((what) => {
    const [has, usual] = [load[`${what}s`], idle[`${what}s`]]
    return has > usual ? [{ what, detail: `${has}, and an idle process has ${usual}` }] : []
  })

const letters = "abcdefghijklmnopqrstuvwxyz"

/** The replicas of a world. When one is gone, another process may take its place, under the same letter. */
export class Cluster {
  readonly surroundings: Surroundings
  readonly #places: Array<Replica> = []
  readonly #starts: Array<number> = []

  constructor(surroundings: Surroundings, size: number) {
    this.surroundings = surroundings
    for (let place = 0; place < size; place++) this.start(place)
  }

  get size(): number {
    return this.#places.length
  }

  get all(): ReadonlyArray<Replica> {
    return this.#places
  }

  at(place: number): Replica | undefined {
    return this.#places[place % this.#places.length]
  }

  start(place: number): void {
    const count = (this.#starts[place] ?? 0) + 1
    this.#starts[place] = count
    const again = () =>
      void this.surroundings.world.loop.after(restartMs, () => {
        if (this.#starts[place] === count) this.start(place)
      })
    this.#places[place] = new Replica(`${letters[place] ?? place}.${count}`, this.surroundings, again)
  }

  /** A process that takes requests: the one in this place, or the next one. */
  upAt(place: number): Replica | undefined {
    for (let step = 0; step < this.size; step++) {
      const replica = this.at(place + step)
      if (replica?.isUp === true) return replica
    }
    return undefined
  }

  /** Waits until no process does more than one that has not had a plan yet, but not longer than 2 s. */
  readonly awaitIdle = (idle: Load, tries = 40): Effect.Effect<void> =>
    Effect.suspend(() =>
      tries === 0 || this.#places.every(({ process }) => !process.isAlive || excess(process.load, idle).length === 0)
        ? Effect.void
        : Effect.delay(this.awaitIdle(idle, tries - 1), 50)
    )

  /** Ends when every process is gone. */
  readonly awaitGone: Effect.Effect<void> = Effect.suspend(() =>
    this.#places.some(({ process }) => process.isAlive) ? Effect.delay(this.awaitGone, 1_000) : Effect.void
  )

  /** Waits until one takes requests. */
  readonly awaitUp = (place: number): Effect.Effect<Replica> =>
    Effect.suspend(() => {
      const replica = this.upAt(place)
      return replica === undefined
        ? Effect.andThen(
            Effect.sleep(250),
            Effect.suspend(() => this.awaitUp(place))
          )
        : Effect.succeed(replica)
    })
}
