import type { PgClient } from "@effect/sql-pg/PgClient"
import { assert, describe, it } from "@effect/vitest"
import { simulate } from "../../src/simulation/Simulation.ts"
import { bugs } from "./Bugs.ts"
import { onPglite } from "./Seeds.ts"

const isText = (text: unknown): text is TemplateStringsArray => Array.isArray(text) && "raw" in text

const fence = "and (i.fence is null or s.fence = i.fence)"

/** The statement that stores a batch no longer looks at the fence of its session. */
const withoutFence = (client: PgClient): PgClient =>
  new Proxy(client, {
    apply: (sql, self, [text, ...values]: ReadonlyArray<unknown>): unknown => {
      const without = (parts: TemplateStringsArray) => parts.map((part) => part.replace(fence, ""))
      return Reflect.apply(sql, self, [
        isText(text) ? Object.assign(without(text), { raw: text.raw }) : text,
        ...values
      ])
    }
  })

describe("a simulated run on PGlite", () => {
  it("keeps every rule under the faults of seeds", onPglite, 36_000_000)

  it("finds a fence that a statement lacks, and nothing where it has it", async () => {
    const { rule, scenario } = bugs["a missing fence"] ?? assert.fail()
    // It takes an old writer that writes before it hears of its lease: about every second one does.
    for (let seed = 1; seed <= 12; seed++) {
      const run = { seed, scenario: { ...scenario, seed }, store: "pglite" } as const
      const { violations } = await simulate({ ...run, overrides: { sqlClient: withoutFence } })
      if (!violations.some((violation) => violation.rule === rule)) continue
      return assert.deepStrictEqual((await simulate(run)).violations, [])
    }
    assert.fail("no seed finds it")
  }, 300_000)
})
