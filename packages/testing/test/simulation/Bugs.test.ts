import { assert, describe, it } from "@effect/vitest"
import { simulate } from "../../src/simulation/Simulation.ts"
import { bugs } from "./Bugs.ts"

describe("the rules of the simulation", () => {
  for (const [name, { plant, rule, scenario }] of Object.entries(bugs)) {
    it(`find ${name}, and nothing where it is not`, async () => {
      const { seed } = scenario
      const planted = await simulate({ seed, scenario, plant: plant() })
      assert.include(
        planted.violations.map((violation) => violation.rule),
        rule
      )
      const { violations } = await simulate({ seed, scenario })
      assert.deepStrictEqual(violations, [])
    })
  }
})
