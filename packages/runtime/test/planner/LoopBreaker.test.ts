import type { TaskState } from "@bowline/domain/tool/TaskState"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import type { LoopLimits } from "../../src/config/PlansConfig.ts"
import { afterStep, type EndedCall, initial, isExhausted, type LoopState } from "../../src/planner/LoopBreaker.ts"

const defaultLimits: LoopLimits = { failures: 3, repeats: 5, pairs: 4 }

const call = (signature: string, state: TaskState, result: string = state, isPolling = false): EndedCall => ({
  signature,
  tool: signature,
  state,
  result,
  isPolling
})
const ok = (signature: string, result = "same") => call(signature, "completed", result)
const fails = (signature: string) => call(signature, "failed")

/** Feeds steps until one ends the plan: the number of that step, and of those that warned. */
const run = (steps: ReadonlyArray<ReadonlyArray<EndedCall>>, limits: LoopLimits = defaultLimits) => {
  let state: LoopState = initial
  const warned: Array<number> = []
  for (const [index, step] of steps.entries()) {
    const verdict = afterStep(state, step, limits)
    state = verdict.state
    if (verdict.warned !== undefined) warned.push(index + 1)
    if (verdict.detected !== undefined) return { detected: verdict.detected.signature, at: index + 1, warned }
    if (isExhausted(state)) return { exhausted: true, at: index + 1, warned }
  }
  return { warned }
}
const times = (count: number, step: ReadonlyArray<EndedCall>) => Array.from({ length: count }, () => step)

describe("a call that keeps failing", () => {
  it("ends the plan in the third step that contains it, whatever lies between", () => {
    assert.deepStrictEqual(run(times(3, [fails("a")])), { detected: "a", at: 3, warned: [] })
    const spread = [[fails("a")], [ok("b", "1")], [fails("a")], [ok("b", "2")], [fails("a")]]
    assert.deepStrictEqual(run(spread), { detected: "a", at: 5, warned: [] })
  })

  it("is not shielded by a companion that succeeds", () => {
    const step = (round: number) => [ok("b", String(round)), fails("a"), ok("c", String(round))]
    assert.deepStrictEqual(run([step(1), step(2), step(3)]), { detected: "a", at: 3, warned: [] })
  })

  it("is three different calls: nothing", () => {
    assert.deepStrictEqual(run([[fails("a")], [fails("b")], [fails("c")]]), { warned: [] })
  })

  it("begins anew behind a success of the same call, also one in the same step", () => {
    assert.deepStrictEqual(run([[fails("a")], [fails("a")], [ok("a")], [fails("a")], [fails("a")]]), { warned: [] })
    assert.deepStrictEqual(run(times(4, [fails("a"), ok("a")])), { warned: [] })
  })

  it("counts once a step, however often the step calls it", () => {
    assert.deepStrictEqual(run(times(2, [fails("a"), fails("a"), fails("a")])), { warned: [] })
  })

  for (const state of ["failed", "timed-out", "invalid"] as const) {
    it(`counts ${state}`, () => {
      assert.deepInclude(run(times(3, [call("a", state)])), { detected: "a" })
    })
  }
  for (const state of [
    "rejected",
    "interrupted",
    "input-required",
    "auth-required",
    "payment-required",
    "trust-verification-required"
  ] as const) {
    it(`neither counts ${state} nor lets it reset the count`, () => {
      assert.deepStrictEqual(run(times(10, [call("a", state)])), { warned: [] })
      const between = [[fails("a")], [call("a", state)], [fails("a")], [call("a", state)], [fails("a")]]
      assert.deepStrictEqual(run(between), { detected: "a", at: 5, warned: [] })
    })
  }
})

describe("a call that repeats itself", () => {
  it("is told at the fifth equal result, and exhausts the plan two repetitions later", () => {
    assert.deepStrictEqual(run(times(9, [ok("a")])), { exhausted: true, at: 7, warned: [5] })
  })

  it("begins anew with another result", () => {
    const steps = [...times(4, [ok("a", "1")]), [ok("a", "2")], ...times(4, [ok("a", "1")])]
    assert.deepStrictEqual(run(steps), { warned: [] })
  })

  it("is told at the eighth call of two that alternate with the same results", () => {
    const steps = Array.from({ length: 12 }, (_, index) => [ok(index % 2 === 0 ? "a" : "b")])
    const { warned } = run(steps, { ...defaultLimits, repeats: 0 })
    assert.deepStrictEqual(warned, [8])
  })

  it("is not told of two that alternate once another call comes between them", () => {
    const steps = Array.from({ length: 14 }, (_, index) => [ok(index === 7 ? "c" : index % 2 === 0 ? "a" : "b")])
    assert.deepStrictEqual(run(steps, { ...defaultLimits, repeats: 0 }), { warned: [] })
  })

  it("is told once, though the model tries another repetition behind it", () => {
    const steps = [...times(5, [ok("a")]), ...times(6, [ok("b")])]
    assert.deepStrictEqual(run(steps), { exhausted: true, at: 11, warned: [5] })
  })

  it("is nothing where the tool is one to be polled", () => {
    assert.deepStrictEqual(run(times(30, [call("a", "completed", "same", true)])), { warned: [] })
  })

  it("is nothing where its rule is switched off", () => {
    const off = { failures: 0, repeats: 0, pairs: 0 }
    assert.deepStrictEqual(run(times(30, [ok("a"), fails("b")]), off), { warned: [] })
  })
})

const Steps = Schema.Array(
  Schema.Array(
    Schema.Struct({ signature: Schema.Literals(["a", "b", "c"]), state: Schema.Literals(["completed", "failed"]) })
  )
)

/** The longest run of steps that contain the call, in all of which it failed. */
const longestStreak = (steps: typeof Steps.Type, signature: string): number => {
  let streak = 0
  return steps.reduce((longest, step) => {
    const own = step.filter((one) => one.signature === signature)
    if (own.length > 0) streak = own.every(({ state }) => state === "failed") ? streak + 1 : 0
    return Math.max(longest, streak)
  }, 0)
}

describe("any run of calls", () => {
  it.prop(
    "ends exactly when a call has failed in three steps in a row that contain it",
    { steps: Steps },
    ({ steps }) => {
      const ended = steps.map((step) => step.map(({ signature, state }) => call(signature, state)))
      const outcome = run(ended, { ...defaultLimits, repeats: 0, pairs: 0 })
      const longest = ["a", "b", "c"].map((signature) => longestStreak(steps, signature))
      assert.strictEqual("detected" in outcome, Math.max(...longest) >= 3)
    }
  )
})
