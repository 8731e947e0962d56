import { assert, describe, it } from "@effect/vitest"
import { simulate } from "../../src/simulation/Simulation.ts"
import { shrink } from "../../src/simulation/Shrink.ts"
import { bugs } from "./Bugs.ts"

describe("seeds", () => {
  for (const [name, { plant, rules, seed }] of Object.entries(bugs)) {
    it(`find ${name}`, async () => {
      const broken = async (scenario?: Parameters<typeof shrink>[0]) => {
        const run = await simulate({ seed, plant: plant(), ...(scenario !== undefined && { scenario }) })
        return { run, isFound: run.violations.some(({ rule }) => rules.includes(rule)) }
      }
      const { isFound, run } = await broken()
      assert.isTrue(isFound, JSON.stringify(run.violations))
      const smallest = await shrink(run.scenario, async (scenario) => (await broken(scenario)).isFound, 60)
      assert.isAtMost(smallest.plans.length, 2)
      assert.isAtMost(smallest.faults.length, 2)
    })
  }
})
