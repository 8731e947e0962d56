import { assert, describe, it } from "@effect/vitest"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { check } from "../../src/simulation/check/Checkers.ts"
import type { Observed, ObservedCall } from "../../src/simulation/scenario/Observed.ts"
import { argumentsOf } from "../../src/simulation/world/Bank.ts"
import * as Given from "../../src/store/Given.ts"
import { sound } from "./Sound.ts"
import { frames } from "./Spoil.ts"

const other = TaskId.make("44444444-0000-4000-8000-000000000000")

/** The call of the run pays an order. */
const paying: Observed = {
  ...sound,
  calls: sound.calls.map((call) => ({
    ...call,
    tool: "pay",
    payment: { order: "sim 1", key: "key", isRefused: false }
  })),
  commits: sound.commits.map((commit) => ({
    ...commit,
    changes: commit.changes.map((change) =>
      change._tag === "TaskStarted" ? { ...change, tool: "pay", input: argumentsOf(1, true) } : change
    )
  }))
}

/** The bank gets another call. */
const paidAgain =
  (change: Partial<ObservedCall>) =>
  (run: Observed): Observed => ({
    ...run,
    calls: run.calls.flatMap((call) => [call, { ...call, key: "p0.1", task_id: other, ...change }])
  })

const payment = { order: "sim 1", key: "key", isRefused: false }

/** The call of the run is told to repeat another one. */
const repeats = frames((all) =>
  all.map((event) =>
    event.event === "task.finished" ? { ...event, data: { ...event.data, repeat_of: other } } : event
  )
)

/** Somebody is asked whether the other call has done what this one is to do. */
const doubted = (run: Observed): Observed => ({
  ...run,
  commits: run.commits.map((commit, index) => {
    const tool = { tool: "pay", agent: null, input: argumentsOf(1, false), tool_digest: null, known_tool: null }
    const wait = Given.waitOpened(TaskId.make("55555555-0000-4000-8000-000000000000"), tool)
    return index === 0 ? { ...commit, changes: [{ ...wait, why: "maybe_done", mark: other }] } : commit
  })
})

/** Another process takes the plan over in front of the call. */
const lost = (run: Observed): Observed => ({
  ...run,
  takeOvers: run.plans.map(({ plan: { plan_id } }) => ({ at: 205, order: 20.5, replica: "b", plan_id, heard: 206 }))
})

const violations: ReadonlyArray<readonly [string, string, (run: Observed) => Observed]> = [
  ["an order that is paid twice", "effects", paidAgain({})],
  [
    "an order whose calls have two idempotency keys",
    "effects",
    paidAgain({ payment: { ...payment, key: "another key", isRefused: true } })
  ],
  ["an idempotency key of two orders", "effects", paidAgain({ payment: { ...payment, order: "sim 2" } })],
  ["a repetition of what there was not", "effects", repeats],
  ["a question about what there was not", "effects", doubted],
  ["a call of a process that has lost its plan", "calls", lost]
]

describe("the checker of effects", () => {
  it("finds nothing where an order is paid once, also where the bank has refused it before", () => {
    const effects = (run: Observed) => check(run).filter(({ rule }) => rule === "effects")
    assert.deepStrictEqual(effects(paying), [])
    assert.deepStrictEqual(effects(paidAgain({ payment: { ...payment, isRefused: true } })(paying)), [])
    assert.deepStrictEqual(effects(paidAgain({ tool: "refund", payment: { ...payment, key: "its own" } })(paying)), [])
  })

  for (const [what, rule, spoil] of violations) {
    it(`finds ${what}`, () => {
      const found = check(spoil(paying)).map((violation) => violation.rule)
      assert.include(found, rule)
    })
  }
})
