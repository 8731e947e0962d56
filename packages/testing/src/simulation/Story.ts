import type { Violation } from "./check/Checkers.ts"
import type { Scenario } from "./scenario/Scenario.ts"
import { shrink } from "./scenario/Shrink.ts"
import { type Options, type SimulationResult, simulate } from "./Simulation.ts"
import { print } from "./world/World.ts"

const list = (what: string, lines: ReadonlyArray<string>): ReadonlyArray<string> => [
  `${what}:`,
  ...lines.map((line) => `  ${line}`)
]

const shown = (violations: ReadonlyArray<Violation>): ReadonlyArray<string> =>
  violations.map(({ rule, what }) => `${rule}: ${what}`)

/** What a scenario has, a line for each of its plans and faults. */
const parts = ({ faults, plans, replicas }: Scenario): ReadonlyArray<string> => [
  `${replicas} replicas`,
  ...plans.map((plan) => `plan ${JSON.stringify(plan)}`),
  ...faults.map((fault) => `fault ${JSON.stringify(fault)}`)
]

/**
 * The story of a seed whose run broke a rule, line by line: what was broken, the smallest scenario that still breaks the same rule, and
 * what happens in it. It runs the seed again and again, up to `tries` times.
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
  const flags = options.store === "pglite" ? "--store pglite --trace" : "--trace"
  return [
    `Seed ${options.seed} breaks a rule. To repeat it: bowline-simulate --seed ${options.seed} ${flags}`,
    ...list("What is wrong", shown(failed.violations)),
    ...list("A smaller scenario that breaks the rule, too", parts(scenario)),
    ...list("What is wrong there", shown(smallest.violations)),
    ...list("Its story", smallest.trace.map(print))
  ]
}
