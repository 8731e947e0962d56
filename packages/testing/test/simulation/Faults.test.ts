import { assert, describe, it } from "@effect/vitest"
import { type Fault, plainPlan, type ScenarioPlan } from "../../src/simulation/Scenario.ts"
import { simulate } from "../../src/simulation/Simulation.ts"

const play = (plan: Partial<ScenarioPlan>, ...faults: ReadonlyArray<Fault>) =>
  simulate({ seed: 1, scenario: { seed: 1, replicas: 1, plans: [{ ...plainPlan, ...plan }], faults } })

/** A plan of a minute that stores something every second. */
const talks = { steps: [{ words: 60, pauseMs: 1_000, calls: [] }] }

const quietSpan = { from: 20_000, to: 35_000 }

const isIn = (at: number) => at > quietSpan.from + 1 && at < quietSpan.to

describe("faults that overlap", () => {
  it("freeze a process until the last of its pauses is over", async () => {
    const { observed, violations } = await play(
      talks,
      { _tag: "Pause", at: 10_000, replica: 0, ms: 25_000 },
      { _tag: "Pause", at: 15_000, replica: 0, ms: 5_000 }
    )
    assert.isFalse(observed.commits.some(({ at }) => isIn(at)))
    assert.deepStrictEqual(violations, [])
  })

  it("keep a process from the store until the last of them is over", async () => {
    const away = (first: Fault, second: Fault) => play(talks, first, second)
    const runs = [
      await away(
        { _tag: "Partition", at: 15_000, replica: 0, ms: 20_000 },
        { _tag: "Partition", at: 16_000, replica: 0, ms: 4_000 }
      ),
      await away({ _tag: "StoreAway", at: 15_000, ms: 20_000 }, { _tag: "StoreAway", at: 16_000, ms: 4_000 })
    ]
    for (const { observed, violations } of runs) {
      assert.isFalse(observed.commits.some(({ at }) => isIn(at)))
      assert.deepStrictEqual(violations, [])
    }
  })

  it("leave a dead connection dead when the network resets the others", async () => {
    const { observed, violations } = await play(
      { ...talks, timeoutMs: 300_000 },
      { _tag: "HalfOpen", at: 10_000, replica: 0 },
      { _tag: "NetworkReset", at: 12_000, replica: 0 }
    )
    assert.deepStrictEqual(violations, [])
    assert.deepStrictEqual(
      observed.windows.map(({ reason }) => reason),
      ["idle_timeout"]
    )
  })
})

describe("a supervisor", () => {
  it("starts a process again that could not start without its store", async () => {
    const { trace, violations } = await play(
      { ...talks, timeoutMs: 60_000 },
      { _tag: "Kill", at: 5_000, replica: 0, tasks: 0, backMs: 1_000 },
      { _tag: "StoreAway", at: 5_500, ms: 12_000 }
    )
    const story = trace.flatMap(({ what, where }) => (where.startsWith("a.") ? [`${where} ${what.slice(0, 13)}`] : []))
    assert.includeMembers(story, ["a.2 did not start", "a.3 is up"])
    assert.deepStrictEqual(violations, [])
  })

  it("starts a process again when all are gone, and callers still find their answers there", async () => {
    const { observed, violations } = await play(
      { ...talks, timeoutMs: 240_000 },
      { _tag: "Kill", at: 5_000, replica: 0, tasks: 0, backMs: undefined }
    )
    assert.deepStrictEqual(violations, [])
    assert.deepStrictEqual(
      observed.readers.filter(({ reader }) => reader === "p0").map(({ ended }) => ended?.how),
      ["broken", "done"]
    )
  })
})
