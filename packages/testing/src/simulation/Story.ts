import type { Violation } from "./check/Checkers.ts"
import type { Scenario } from "./scenario/Scenario.ts"
import { shrink } from "./scenario/Shrink.ts"
import { type Options, print, type SimulationResult, simulate } from "./Simulation.ts"

const list = (what: string, lines: ReadonlyArray<string>): ReadonlyArray<string> => [
  `${what}:`,
  ...lines.map((line) => `  ${line}`)
]

const shown = (violations: ReadonlyArray<Violation>): ReadonlyArray<string> =>
  violations.map(({ rule, what }) => `${rule}: ${what}`)

/** What a scenario has, a line for each of its plans and faults. */
const parts = ({ day, faults, parkAfterMs, plans, replicas }: Scenario): ReadonlyArray<string> => [
  `${replicas} replicas`,
  ...(parkAfterMs === undefined ? [] : [`a plan that waits is parked after ${parkAfterMs} ms`]),
  ...(day === undefined ? [] : [`a day of ${JSON.stringify(day)}`]),
  ...plans.map((plan) => `plan ${JSON.stringify(plan)}`),
  ...faults.map((fault) => `fault ${JSON.stringify(fault)}`)
]

/** How to run the seed again. With a world, or a client, of its own it takes a call, and what was given besides stands in it by its name. */
const repeat = (options: Options): string => {
  const { client, scenario: _, seed, steps: __, store = "memory", world, ...rest } = options
  if (world === undefined && client === undefined) {
    return `bowline-simulate --seed ${seed}${store === "pglite" ? " --store pglite" : ""} --trace`
  }
  const given = [
    `seed: ${seed}`,
    ...(world === undefined ? [] : [world.name === "" || world.name === "world" ? "world" : `world: ${world.name}`]),
    ...(client === undefined ? [] : ["client"]),
    ...(store === "memory" ? [] : [`store: "${store}"`]),
    ...Object.keys(rest)
  ]
  return `simulate({ ${given.join(", ")} })`
}

/**
 * The story of a seed whose run broke a rule, line by line: what was broken, the smallest scenario that still breaks the same rule, what
 * happens in it, and in the end what is wrong there, and what faults it takes. It runs the seed again and again, up to `tries` times.
 *
 * @example
 * ```ts
 * import { simulate } from "@bowline/testing/simulation/Simulation"
 * import { tellFailure } from "@bowline/testing/simulation/Story"
 *
 * const options = { seed: 17 }
 * const run = await simulate(options)
 * if (run.violations.length > 0) console.log((await tellFailure(run, options)).join("\n"))
 * ```
 */
export const tellFailure = async (
  failed: SimulationResult,
  options: Options,
  tries?: number
): Promise<ReadonlyArray<string>> => {
  const rules = new Set(failed.violations.map(({ rule }) => rule))
  const run = (scenario: Scenario) => simulate({ ...options, scenario })
  const breaksTheSame = ({ violations }: SimulationResult) => violations.some(({ rule }) => rules.has(rule))
  const scenario = await shrink(failed.scenario, async (smaller) => breaksTheSame(await run(smaller)), tries)
  const smallest = await run(scenario)
  const { faults } = scenario
  return [
    `Seed ${options.seed} breaks a rule. To repeat it: ${repeat(options)}`,
    ...list("What is wrong", shown(failed.violations)),
    ...list("A smaller scenario that breaks the rule, too", parts(scenario)),
    ...list("Its story", smallest.trace.map(print)),
    ...list("What is wrong there", shown(smallest.violations)),
    ...list("The faults that it takes", faults.length === 0 ? ["none"] : faults.map((fault) => JSON.stringify(fault)))
  ]
}
