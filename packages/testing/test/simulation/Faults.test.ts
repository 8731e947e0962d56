import { assert, describe, it } from "@effect/vitest"
import { type Fault, plainPlan, type Scenario, type ScenarioPlan } from "../../src/simulation/scenario/Scenario.ts"
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

describe("a caller", () => {
  it("that leaves while it comes back waits for no end", async () => {
    const steps = [{ words: 1, pauseMs: 1, calls: [{ key: "p0/0.0", tool: "three_again", ms: 1 }] }]
    const scenario: Scenario = {
      seed: 3,
      replicas: 1,
      plans: [
        {
          ...plainPlan,
          onDisconnect: "cancel",
          approval: "always",
          timeoutMs: 238_624,
          steps: [...steps, ...plainPlan.steps],
          acts: [{ _tag: "Leave", at: 9_324 }]
        }
      ],
      faults: [
        { _tag: "StoreSlow", at: 1_526, replica: 0, ms: 6_378, delayMs: 964 },
        { _tag: "StoreSlow", at: 3_690, replica: 0, ms: 7_562, delayMs: 820 },
        { _tag: "Drain", at: 3_803, replica: 0, backMs: 13_814 }
      ]
    }
    const { observed, violations } = await simulate({ seed: scenario.seed, scenario })
    assert.deepStrictEqual(violations, [])
    assert.deepStrictEqual(
      observed.readers.filter(({ reader }) => reader === "p0").map(({ ended }) => ended?.how),
      ["given up"]
    )
  })

  it("that leaves before a process runs asks nothing", async () => {
    const { observed, violations } = await play(
      { at: 1_900, acts: [{ _tag: "Leave", at: 1 }] },
      { _tag: "Drain", at: 1_116, replica: 0, backMs: 5_000 }
    )
    assert.deepStrictEqual(violations, [])
    assert.isFalse(observed.plans.some(({ name }) => name === "p0"))
  })

  it("that asks again at a slow store has its plan as late as that stores it", async () => {
    const acts: ScenarioPlan["acts"] = [
      { _tag: "Leave", at: 1 },
      { _tag: "ComeBack", at: 18_918, replica: 1, from: "last" }
    ]
    const scenario: Scenario = {
      seed: 5,
      replicas: 2,
      plans: [{ ...plainPlan, name: "p1", at: 1, replica: 1, timeoutMs: 1_665, acts }],
      faults: [{ _tag: "StoreSlow", at: 18, replica: 1, ms: 53_151, delayMs: 3_035 }]
    }
    const { observed, violations } = await simulate({ seed: scenario.seed, scenario })
    assert.deepStrictEqual(violations, [])
    assert.isAbove(observed.plans.find(({ name }) => name === "p1")?.created.at ?? 0, 25_000)
  })
})
