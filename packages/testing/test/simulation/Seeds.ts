import { assert } from "@effect/vitest"
import { Config, ConfigProvider, Effect, Option, Random } from "effect"
import { drawScenario } from "../../src/simulation/course/DrawScenario.ts"
import { pays } from "../../src/simulation/scenario/Scenario.ts"
import { type Options, simulate } from "../../src/simulation/Simulation.ts"
import { tellFailure } from "../../src/simulation/Story.ts"

/** How many files share the seeds, so that they run at once. */
const files = 4

/** Runs its share of these seeds, and says how much time has passed in them. A seed that fails is shrunk, and told. */
const runAll = async (
  what: string,
  seeds: ReadonlyArray<number>,
  store: Options["store"] = "memory"
): Promise<void> => {
  const began = performance.now()
  let virtualMs = 0
  for (const seed of seeds) {
    const run = await simulate({ seed, store })
    virtualMs += run.virtualMs
    if (run.violations.length > 0) assert.fail((await tellFailure(run, { seed, store })).join("\n"))
  }
  const [hours, seconds] = [virtualMs / 3_600_000, (performance.now() - began) / 1_000]
  process.stdout.write(
    `${seeds.length} ${what} seeds: ${hours.toFixed(1)} virtual hours, ${(hours / seconds).toFixed(2)} for each second\n`
  )
}

const shareOf = (file: number, seeds: ReadonlyArray<number>): ReadonlyArray<number> =>
  seeds.filter((_, index) => index % files === file)

const inARow = (first: number, count: number): ReadonlyArray<number> =>
  Array.from({ length: count }, (_, index) => first + index)

/** The share of a file of the 120 seeds that are always the same. */
export const fixed = (file: number) => runAll("fixed", shareOf(file, inARow(1, 120)))

/** Whether somebody looks for bugs with new seeds: that takes its time. */
export const isSearch = process.env["BOWLINE_SEEDS"] !== undefined

/** Seeds on PGlite, from the first one, or `BOWLINE_SEED`, on: 2, or `BOWLINE_PGLITE_SEEDS`. */
export const onPglite = () =>
  Effect.gen(function* () {
    const count = yield* Config.Int("BOWLINE_PGLITE_SEEDS").pipe(Config.withDefault(2))
    const first = yield* Config.Int("BOWLINE_SEED").pipe(Config.withDefault(1))
    yield* Effect.promise(() => runAll("PGlite", inARow(first, count), "pglite"))
  }).pipe(Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv()), Effect.runPromise)

/** So many seeds from the first one on; with `BOWLINE_SEEDS_OF=payments` those in which plans pay. */
function* seedsFrom(first: number, count: number, isPaying: boolean): Generator<number> {
  for (let seed = first, found = 0; found < count; seed++) {
    if (isPaying && !pays(drawScenario(seed))) continue
    found++
    yield seed
  }
}

/** Its share of seeds that nobody has run yet: 8, or `BOWLINE_SEEDS`; from a random one on, or from `BOWLINE_SEED`. */
export const fresh = (file: number) =>
  Effect.gen(function* () {
    const only = yield* Config.option(Config.Literals(["payments"], "BOWLINE_SEEDS_OF"))
    const count = yield* Config.Int("BOWLINE_SEEDS").pipe(Config.withDefault(8))
    const first = yield* Config.Int("BOWLINE_SEED").pipe(
      Config.withDefault(yield* Random.nextIntBetween(1_000, 2 ** 30))
    )
    const seeds = Array.from(seedsFrom(first, count, Option.isSome(only)))
    yield* Effect.promise(() => runAll("fresh", shareOf(file, seeds)))
  }).pipe(Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv()), Effect.runPromise)
