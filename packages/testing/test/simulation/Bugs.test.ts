import { assert, describe, it } from "@effect/vitest"
import type { Scenario } from "../../src/simulation/scenario/Scenario.ts"
import { shrink } from "../../src/simulation/scenario/Shrink.ts"
import { simulate } from "../../src/simulation/Simulation.ts"
import { bugs } from "./Bugs.ts"
import type { Bug } from "./Planting.ts"
import { isSearch } from "./Seeds.ts"

/** The first of these seeds that finds the bug, in what it draws. */
const find = async (seeds: Iterable<number>, { overrides, rule }: Bug): Promise<Scenario | undefined> => {
  for (const seed of seeds) {
    const { scenario, violations } = await simulate({ seed, overrides: overrides() })
    if (violations.some((violation) => violation.rule === rule)) return scenario
  }
  return undefined
}

function* upTo(count: number): Generator<number> {
  for (let seed = 1; seed <= count; seed++) yield seed
}

describe("the rules of the simulation", () => {
  for (const [name, bug] of Object.entries(bugs)) {
    const { overrides, rule, scenario, seeds } = bug
    it(`find ${name}, and nothing where it is not`, async () => {
      const { seed } = scenario
      const planted = await simulate({ seed, scenario, overrides: overrides() })
      assert.include(
        planted.violations.map((violation) => violation.rule),
        rule
      )
      const { violations } = await simulate({ seed, scenario })
      assert.deepStrictEqual(violations, [])
    })

    it(`find ${name} in what a seed draws`, async () => {
      assert.isDefined(await find(seeds, bug))
    })

    it.runIf(isSearch)(
      `find ${name} within 400 seeds, and shrink it to what a reader sees at once`,
      async () => {
        const found = await find(upTo(400), bug)
        if (found === undefined) return assert.fail("no seed finds it")
        const smallest = await shrink(found, async (scenario) => {
          const { violations } = await simulate({ seed: scenario.seed, scenario, overrides: overrides() })
          return violations.some((violation) => violation.rule === rule)
        })
        process.stdout.write(`${name}, seed ${found.seed}: ${JSON.stringify(smallest)}\n`)
        assert.isAtMost(smallest.plans.length, 2)
        assert.isAtMost(smallest.faults.length, 2)
      },
      36_000_000
    )
  }
})
