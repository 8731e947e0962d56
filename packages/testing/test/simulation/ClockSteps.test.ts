import { assert, describe, it } from "@effect/vitest"
import {
  type CallerAct,
  type Fault,
  plainPlan,
  type Scenario,
  type ScenarioPlan
} from "../../src/simulation/scenario/Scenario.ts"
import { simulate } from "../../src/simulation/Simulation.ts"

const plan: ScenarioPlan = {
  ...plainPlan,
  timeoutMs: 1_800_000,
  steps: [{ words: 9, pauseMs: 20_000, calls: [] }]
}

const scenario = (faults: ReadonlyArray<Fault>): Scenario => ({ seed: 1, replicas: 2, plans: [plan], faults })

describe("a gateway whose wall clock is set", () => {
  it("does not take a jump for the silence of a provider", async () => {
    const { observed, violations } = await simulate({
      seed: 1,
      scenario: scenario([{ _tag: "ClockStep", at: 119_500, replica: 0, byMs: 400_000 }])
    })
    assert.deepStrictEqual([observed.windows, violations], [[], []])
    assert.deepStrictEqual(
      observed.attempts.map(({ result }) => result),
      ["finished", "finished"]
    )
  })

  it("gives a silent provider up in time, though the clock was set back", async () => {
    const { observed } = await simulate({
      seed: 1,
      scenario: scenario([
        { _tag: "Provider", plan: "p0", request: 0, does: { _tag: "Stall", words: 0, ms: 3_000_000 } },
        { _tag: "ClockStep", at: 60_000, replica: 0, byMs: -900_000 }
      ])
    })
    const [first] = observed.attempts
    assert.isBelow((first?.ended?.at ?? Infinity) - (first?.began.at ?? 0), 121_000)
  })

  it("takes over what a dead replica has left, though the clock was set forward and back", async () => {
    const { observed } = await simulate({
      seed: 1,
      scenario: scenario([
        { _tag: "ClockStep", at: 1_000, replica: 1, byMs: 900_000 },
        { _tag: "ClockStep", at: 12_000, replica: 1, byMs: -900_000 },
        { _tag: "Kill", at: 15_000, replica: 0, tasks: 0, backMs: 200_000 }
      ])
    })
    const [taken] = observed.takeOvers
    assert.strictEqual(taken?.replica, "b.1")
    assert.isBelow(taken?.at ?? Infinity, 15_250 + 25_000)
  })

  it("ends a plan at its deadline that a replica whose clock is behind has taken over", async () => {
    const { observed } = await simulate({
      seed: 1,
      scenario: {
        ...scenario([
          { _tag: "Provider", plan: "p0", request: 0, does: { _tag: "Stall", words: 0, ms: 3_000_000 } },
          { _tag: "Provider", plan: "p0", request: 1, does: { _tag: "Stall", words: 0, ms: 3_000_000 } },
          { _tag: "ClockStep", at: 1_000, replica: 1, byMs: -900_000 },
          { _tag: "Kill", at: 15_000, replica: 0, tasks: 0, backMs: undefined }
        ]),
        plans: [{ ...plan, timeoutMs: 90_000 }]
      }
    })
    assert.strictEqual(observed.takeOvers[0]?.replica, "b.1")
    const end = observed.commits.find(({ changes }) => changes.some(({ _tag }) => _tag === "Settled"))
    assert.strictEqual(Math.round((end?.at ?? 0) / 1_000), 90)
    assert.strictEqual(observed.plans[0]?.plan.error?.reason, "deadline")
  })

  it("gives a call that it resumes the time that is left of it, though its clock is ahead of the one that started it", async () => {
    const call = { key: "p0/0.0", tool: "bindu_ask", ms: 60_000 }
    const { observed, violations } = await simulate({
      seed: 1,
      scenario: {
        ...scenario([
          { _tag: "ClockStep", at: 1_000, replica: 1, byMs: 900_000 },
          { _tag: "Kill", at: 15_000, replica: 0, tasks: 0, backMs: undefined }
        ]),
        plans: [{ ...plan, steps: [{ words: 1, pauseMs: 1, calls: [call] }, ...plan.steps] }]
      }
    })
    assert.strictEqual(observed.takeOvers[0]?.replica, "b.1")
    const ended = observed.commits.flatMap(({ changes }) => changes.filter((change) => change._tag === "TaskFinished"))
    assert.deepStrictEqual(
      ended.map(({ state }) => state),
      ["completed"]
    )
    assert.deepStrictEqual(violations, [])
  })

  it("pings its readers every 10 s of silence, here and at another replica, though the clock was set back", async () => {
    for (const replica of [0, 1]) {
      const back: CallerAct = { _tag: "ComeBack", at: 500, replica, from: "last" }
      const { observed, violations } = await simulate({
        seed: 1,
        scenario: {
          ...scenario([{ _tag: "ClockStep", at: 9_000, replica, byMs: -8_000 }]),
          plans: [{ ...plan, acts: [back] }]
        }
      })
      assert.strictEqual(observed.readers[1]?.replica, ["a.1", "b.1"][replica])
      assert.deepStrictEqual(violations, [])
    }
  })

  it("asks a provider again that has failed, though the clock was set behind the deadline", async () => {
    const { observed } = await simulate({
      seed: 1,
      scenario: scenario([
        { _tag: "Provider", plan: "p0", request: 0, does: { _tag: "NoFinish" } },
        { _tag: "ClockStep", at: 60_000, replica: 0, byMs: 3_600_000 }
      ])
    })
    assert.strictEqual(observed.plans[0]?.plan.state, "completed")
  })

  it("says to readers that their connections are there, though the clock was set back", async () => {
    const { violations } = await simulate({
      seed: 1,
      scenario: {
        ...scenario([0, 1].map((replica) => ({ _tag: "ClockStep", at: 27_000, replica, byMs: -6_000 }))),
        plans: [{ ...plan, acts: [{ _tag: "AskAgain", at: 1_000, replica: 1 }] }]
      }
    })
    assert.deepStrictEqual(violations, [])
  })
})
