import { assert, describe, it } from "@effect/vitest"
import { simulate } from "../../src/simulation/Simulation.ts"
import { found } from "./Found.ts"

describe("the scenarios that have found a bug", () => {
  for (const [guarantee, scenario] of Object.entries(found)) {
    it(`break no rule: ${guarantee}`, async () => {
      const { violations } = await simulate({ seed: scenario.seed, scenario })
      assert.deepStrictEqual(violations, [])
    })
  }
})
