import { assert, describe, it } from "@effect/vitest"
import type { Fault, Scenario, ScenarioPlan } from "../../src/simulation/scenario/Scenario.ts"
import { shrink } from "../../src/simulation/scenario/Shrink.ts"

const plan = (index: number): ScenarioPlan => ({
  name: `p${index}`,
  session: "s",
  at: index * 100,
  replica: index % 3,
  onDisconnect: "continue",
  onBusy: "queue",
  hasKey: false,
  timeoutMs: 60_000,
  readMs: 10,
  ballast: 500,
  steps: [1, 2, 3].map((step) => ({
    words: 4,
    pauseMs: 20,
    calls: step === 3 ? [] : [{ key: `p${index}.${step}`, tool: "ask", ms: 300 }]
  })),
  acts: [
    { _tag: "Leave", at: 200 },
    { _tag: "ComeBack", at: 900, replica: 2, from: "last" }
  ]
})
const kill = (at: number): Fault => ({ _tag: "Kill", at, replica: 1, tasks: 40, backMs: 2_000 })

const scenario: Scenario = {
  seed: 7,
  replicas: 3,
  plans: [0, 1, 2, 3, 4].map(plan),
  faults: [
    kill(100),
    { _tag: "StoreAway", at: 400, ms: 8_000 },
    kill(4_000),
    { _tag: "Notices", at: 1, replica: 0, ms: 90, become: "lost" }
  ]
}

describe("shrink", () => {
  it("leaves nothing of a scenario but what makes it fail", async () => {
    const needsTwo = async ({ faults, plans }: Scenario) =>
      plans.some(({ name, steps }) => name === "p3" && steps.some(({ calls }) => calls.length > 0)) &&
      faults.some((fault) => fault._tag === "StoreAway" && fault.ms > 1_000)
    assert.deepStrictEqual(await shrink(scenario, needsTwo), {
      seed: 7,
      replicas: 1,
      plans: [
        {
          ...plan(3),
          at: 1,
          readMs: 1,
          ballast: 0,
          steps: [
            { words: 1, pauseMs: 1, calls: [{ key: "p3.2", tool: "ask", ms: 1 }] },
            { words: 1, pauseMs: 1, calls: [] }
          ],
          acts: []
        }
      ],
      faults: [{ _tag: "StoreAway", at: 1, ms: 1_000 + 1_000 }]
    })
  })

  it("gives what it has when it may try no more", async () => {
    let tries = 0
    const { faults, plans } = await shrink(scenario, async () => ++tries > 0, 2)
    assert.strictEqual(tries, 2)
    assert.isBelow(plans.length + faults.length, 9)
  })
})
