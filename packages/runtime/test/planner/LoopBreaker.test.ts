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

  it("is told before it counts against the plan, however many calls its step repeats", () => {
    const step = [ok("a"), ok("b"), ok("c")]
    assert.deepStrictEqual(run(times(5, step)), { warned: [5] })
    assert.deepStrictEqual(run(times(9, step)), { exhausted: true, at: 6, warned: [5] })
  })

  it("is nothing where the tool is one to be polled", () => {
    assert.deepStrictEqual(run(times(30, [call("a", "completed", "same", true)])), { warned: [] })
  })

  it("is nothing where its rule is switched off", () => {
    const off = { failures: 0, repeats: 0, pairs: 0 }
    assert.deepStrictEqual(run(times(30, [ok("a"), fails("b")]), off), { warned: [] })
  })
})

const Step = Schema.Array(
  Schema.Struct({
    signature: Schema.Literals(["a", "b", "poll"]),
    state: Schema.Literals(["completed", "failed", "timed-out", "rejected"]),
    result: Schema.Literals(["1", "2"])
  })
)
const Limits = Schema.Struct({
  failures: Schema.Literals([0, 1, 2, 3]),
  repeats: Schema.Literals([0, 2, 3]),
  pairs: Schema.Literals([0, 1, 2])
})

/** The same rules, without a state: all that was called is looked through again. */
const naive = (steps: ReadonlyArray<ReadonlyArray<EndedCall>>, limits: LoopLimits) => {
  const isFailed = ({ state }: EndedCall) => state !== "completed"
  const counted = steps.map((step) => step.filter(({ state }) => state !== "rejected"))
  /** One call for each signature of a step: the last one, in the place of the first one. */
  const distinct = counted.map((step) =>
    step.flatMap((one, at) =>
      step.findIndex(({ signature }) => signature === one.signature) === at
        ? [step.findLast(({ signature }) => signature === one.signature) ?? one]
        : []
    )
  )
  const failedSteps = (signature: string) => {
    const own = counted.map((step) => step.filter((call) => call.signature === signature))
    const outcomes = own.filter(({ length }) => length > 0).map((calls) => calls.every(isFailed))
    return outcomes.length - 1 - outcomes.lastIndexOf(false)
  }
  const isRepetition = (calls: ReadonlyArray<EndedCall>) => {
    const last = calls.at(-1)
    const own = calls.filter(({ signature }) => signature === last?.signature)
    const isSame =
      limits.repeats > 0 &&
      own.length >= limits.repeats &&
      own.slice(-limits.repeats).every(({ result }) => result === last?.result)
    const pairs = calls.slice(-2 * limits.pairs).map(({ signature, result }) => `${signature} ${result}`)
    const isAlternating =
      limits.pairs > 0 &&
      pairs.length === 2 * limits.pairs &&
      calls.at(-2)?.signature !== last?.signature &&
      pairs.every((call, at) => call === pairs[at % 2])
    return isSame || isAlternating
  }
  const calls = distinct.flatMap((step, at) => step.filter(({ isPolling }) => !isPolling).map((call) => ({ at, call })))
  const repetitions = calls.filter((_, index) => isRepetition(calls.slice(0, index + 1).map(({ call }) => call)))
  const told = repetitions[0]
  return {
    detected: (counted.at(-1) ?? []).findLast(
      ({ signature }) => limits.failures > 0 && failedSteps(signature) >= limits.failures
    ),
    warned: told?.at === steps.length - 1 ? told.call : undefined,
    isExhausted: repetitions.filter(({ at }) => told !== undefined && at > told.at).length >= 2
  }
}

describe("any run of calls", () => {
  it.prop(
    "is judged as by a model that remembers nothing and looks through all calls again",
    { steps: Schema.Array(Step), limits: Limits },
    ({ limits, steps }) => {
      const ended = steps.map((step) =>
        step.map(({ signature, state, result }) => call(signature, state, result, signature === "poll"))
      )
      let state: LoopState = initial
      for (const [index, step] of ended.entries()) {
        const { detected, state: after, warned } = afterStep(state, step, limits)
        state = after
        const expected = naive(ended.slice(0, index + 1), limits)
        assert.deepStrictEqual({ detected, warned, isExhausted: isExhausted(state) }, expected, `step ${index + 1}`)
      }
    },
    { arbitrary: { runs: 1_000, size: 20 } }
  )
})
