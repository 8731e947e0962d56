import { Effect, Random } from "effect"

/** What is drawn from a seed: the same seed gives the same. */
export interface Draw {
  /** An integer from 0 on. */
  readonly below: (limit: number) => number
  readonly chance: (percent: number) => boolean
  readonly oneOf: <A>(items: readonly [A, ...ReadonlyArray<A>]) => A
  /** One of these, drawn only then. */
  readonly anyOf: <A>(...draws: readonly [() => A, ...ReadonlyArray<() => A>]) => A
  readonly many: <A>(least: number, most: number, draw: (index: number) => A) => ReadonlyArray<A>
}

const make = (next: () => number): Draw => {
  const below = (limit: number) => Math.floor(next() * limit)
  const oneOf: Draw["oneOf"] = (items) => items[below(items.length)] ?? items[0]
  return {
    below,
    chance: (percent) => next() * 100 < percent,
    oneOf,
    anyOf: (...draws) => oneOf(draws)(),
    many: (least, most, draw) => Array.from({ length: least + below(most - least + 1) }, (_, index) => draw(index))
  }
}

export const fromSeed = <A>(seed: string, draw: (draw: Draw) => A): A =>
  Effect.runSync(
    Effect.map(Random.Random, (random) => draw(make(() => random.nextDoubleUnsafe()))).pipe(Random.withSeed(seed))
  )
