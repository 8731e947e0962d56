import { LocalTools } from "@bowline/runtime/tool/LocalTools"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { wait } from "../../src/http/Move.ts"
import { callTool, say } from "../../src/provider/Turn.ts"
import { type AppWorld, simulate } from "../../src/simulation/Simulation.ts"
import { models } from "../../src/simulation/replica/Replica.ts"
import { plainPlan, type Scenario } from "../../src/simulation/scenario/Scenario.ts"
import { tools as local } from "../../src/simulation/world/Tools.ts"

const wanted = ["knot_7", "knot_421", "knot_999"]
/** One more is found, and never called. */
const found = [...wanted, "knot_500"]

/** As much as a result may have of the window. */
const long = "some words of a tool ".repeat(450)

/** 1,000 tools, of which the model finds three, calls them, and calls them once more. */
const world = (runs: Array<string>): AppWorld => {
  const [work] = local
  const knots = Array.from({ length: 1_000 }, (_, index) => ({
    ...work,
    name: `knot_${index}`,
    description: `Ties the knot ${index}`,
    inputSchema: { type: "object" },
    call: () =>
      Effect.sync(() => {
        runs.push(`knot_${index}`)
        return { state: "completed" as const, content: `${long} ${runs.length}` }
      })
  }))
  return {
    tools: Layer.succeed(LocalTools, knots),
    script: ({ tools }) => {
      const declared = new Set(tools.map(({ name }) => name))
      const calls = wanted.map((name) => callTool(name, {}))
      if (!found.every((name) => declared.has(name))) {
        return found.map((name) => callTool("find_tools", { query: name.replace("_", " "), limit: 1 }))
      }
      if (runs.length < 3) return calls
      return runs.length < 6 ? [say("Once more "), wait(20_000), ...calls] : [say("All tied")]
    }
  }
}

const scenarioOf = (model: string): Scenario => ({
  seed: 1,
  replicas: 2,
  plans: [{ ...plainPlan, model, question: "Tie three knots." }],
  faults: [{ _tag: "Kill", at: 5_000, replica: 0, tasks: 0, backMs: undefined }]
})

describe.each(models)("a plan with 1,000 tools that asks %s", (model) => {
  it("finds three and calls them, and keeps what it has found through a compaction and the death of its process", async () => {
    const runs: Array<string> = []
    const scenario = scenarioOf(model)
    const { observed, violations } = await simulate({ seed: 1, scenario, world: () => world(runs) })
    assert.deepStrictEqual(violations, [])
    assert.deepStrictEqual(runs, [...wanted, ...wanted])
    const [taken] = observed.takeOvers
    const asked = observed.attempts.filter(({ plan }) => plan === "p0")
    const namesOf = ({ asked: { tools } }: (typeof asked)[number]) => tools.map(({ name }) => name)
    assert.deepStrictEqual(asked[0] && namesOf(asked[0]), ["find_tools"])
    assert.sameMembers(asked[1] ? namesOf(asked[1]) : [], ["find_tools", ...found])
    const behind = asked.filter(({ began }) => taken !== undefined && began.order > taken.order)
    assert.isAtLeast(behind.length, 2)
    for (const attempt of behind) assert.sameMembers(namesOf(attempt), ["find_tools", ...found])
    // What has found them is in no message any more.
    const summaries = observed.attempts.filter(({ plan }) => plan === "")
    assert.isAbove(summaries.length, 0)
    assert.isTrue(summaries.some(({ began }) => taken !== undefined && began.order < taken.order))
    const isFinding = JSON.stringify(behind[0]?.asked.messages).includes('"find_tools"')
    assert.isFalse(isFinding)
    assert.strictEqual(observed.plans[0]?.plan.final?.text.includes("All tied"), true)
  })
})
