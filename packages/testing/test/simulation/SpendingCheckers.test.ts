import { assert, describe, it } from "@effect/vitest"
import { check } from "../../src/simulation/check/Checkers.ts"
import type { Observed } from "../../src/simulation/scenario/Observed.ts"
import { sound } from "./Sound.ts"
import { first, plan } from "./Spoil.ts"

const budget = (budget: Observed["plans"][number]["budget"]) => first("plans", () => ({ budget }))

const day =
  (day: { readonly tokens: number; readonly tool_calls: number }) =>
  (run: Observed): Observed => ({ ...run, day: { ...day, lifted: undefined } })

/** The call is made by the second step. */
const usedBefore = first("calls", () => ({ began: { at: 420, order: 42 }, ended: { at: 440, order: 44 } }))

/** Another plan, behind the end of the first one. */
const later = {
  name: "p1",
  plan_id: "plan_later" as never,
  created: { at: 700, order: 70 },
  began: { at: 700, order: 71 },
  ended: { at: 800, order: 79 }
}

const violations: ReadonlyArray<readonly [string, string, (run: Observed) => Observed]> = [
  [
    "a credential that is blocked for another one's fault",
    "spending",
    (run) => ({
      ...run,
      attempts: run.attempts.map((attempt) => ({ ...attempt, result: "rate_limited" })),
      windows: [{ at: 110, order: 21, credential: "key-2", model: null, reason: "rate_limited", until: 30_000 }]
    })
  ],
  [
    "a credential that is blocked for what is nobody's fault",
    "spending",
    (run) => ({
      ...run,
      attempts: run.attempts.map((attempt) => ({ ...attempt, result: "server_error" })),
      windows: [{ at: 110, order: 21, credential: "key-1", model: null, reason: "server_error", until: 30_000 }]
    })
  ],
  [
    "a second window that is longer, though its key was good between them",
    "spending",
    (run) => {
      const window = { credential: "key-1", model: null, reason: "rate_limited" }
      const [attempt] = run.attempts
      if (attempt === undefined) return run
      const failed = (at: number) => ({
        ...attempt,
        began: { at, order: at },
        ended: { at, order: at },
        result: "rate_limited"
      })
      return {
        ...run,
        attempts: [
          ...run.attempts,
          failed(100),
          { ...attempt, began: { at: 40_000, order: 40_000 }, ended: { at: 40_100, order: 40_100 } },
          failed(50_000)
        ],
        windows: [
          { ...window, at: 110, order: 110, until: 30_110 },
          { ...window, at: 50_010, order: 50_010, until: 110_010 }
        ]
      }
    }
  ],
  [
    "a key that is blocked for a refusal without a reason, though it is good",
    "spending",
    (run) => {
      const [attempt] = run.attempts
      if (attempt === undefined) return run
      const moment = { at: 50_000, order: 50_000 }
      return {
        ...run,
        attempts: [...run.attempts, { ...attempt, began: moment, ended: moment, result: "auth", isUnexplained: true }],
        windows: [{ at: 50_010, order: 50_010, credential: "key-1", model: null, reason: "auth", until: 650_010 }]
      }
    }
  ],
  [
    "usage that a hand-over loses",
    "spending",
    (run) => ({
      ...run,
      requests: [...run.requests, ...run.requests.map((one) => ({ ...one, what: "drain" as const }))],
      attempts: run.attempts.map((one) => ({
        ...one,
        ended: { at: 9_000, order: 49 },
        result: "cut",
        usedAt: { at: 450, order: 44 },
        usage: one.usage && { ...one.usage, output_tokens: 90 }
      })),
      commits: run.commits.map((one) =>
        one.order === 50 ? { ...one, at: 9_000, changes: [{ _tag: "HandedOver" }] } : one
      )
    })
  ],
  ["usage that the stream does not tell", "spending", plan(() => ({ usage: sound.attempts[0]?.usage }))],
  [
    "a final frame with another usage",
    "spending",
    plan(({ final }) => ({ final: final && { ...final, usage: sound.attempts[0]?.usage } }))
  ],
  [
    "usage that no plan tells, though only another one has lost its connection",
    "spending",
    (run) => ({
      ...first("attempts", (one) => ({ usage: one.usage && { ...one.usage, output_tokens: 9 } }))(run),
      resets: [{ at: 100, order: 19, replica: "a", plan: "p1", call: undefined }]
    })
  ],
  ["usage that no provider has reported", "spending", first("attempts", () => ({ usage: undefined }))],
  ["more steps than allowed", "budgets", budget({ max_steps: 1 })],
  [
    "a call in the last step",
    "budgets",
    (run) => budget({ max_steps: 1 })({ ...run, attempts: run.attempts.slice(0, 1) })
  ],
  ["more calls than allowed", "budgets", budget({ max_tool_calls: 0 })],
  ["a call for which no token is left", "budgets", (run) => budget({ max_total_tokens: 6 })(usedBefore(run))],
  ["a request that is longer than the plan's tokens", "budgets", budget({ max_total_tokens: 3 })],
  ["more calls than a day has", "budgets", day({ tokens: 1_000, tool_calls: 0 })],
  ["a question on a day that has no token left", "budgets", day({ tokens: 0, tool_calls: 1_000 })],
  [
    "a call for which no token of the day is left",
    "budgets",
    (run) => day({ tokens: 6, tool_calls: 1_000 })(usedBefore(run))
  ],
  [
    "a question behind another plan that has used up the day",
    "budgets",
    (run) =>
      day({ tokens: 12, tool_calls: 1_000 })({
        ...run,
        plans: [...run.plans, ...run.plans.map((one) => ({ ...one, ...later, plan: { ...one.plan, ...later } }))],
        attempts: [...run.attempts, ...run.attempts.map((one) => ({ ...one, plan: "p1", ...later }))]
      })
  ]
]

/** Somebody says something that counts at once while the first request runs. */
const steered = (run: Observed): Observed => {
  const entry_id = "entry_0" as never
  const [, second] = run.commits
  const changed = { _tag: "EntryChanged", entry_id, state: "accepted", step: null, moved_to: null } as const
  const entry = { entry_id, text: "now!", state: "taken", type: "text" } as never
  return {
    ...first("plans", () => ({ inbox: [entry] }))(run),
    said: [{ text: "now!", when: "now" } as never],
    commits:
      second === undefined ? run.commits : [...run.commits, { ...second, at: 150, order: 19, changes: [changed] }]
  }
}

/** A replica that does not have the plan asks once more, and its provider reports more than the plan tells. */
const askedBy =
  (replica: string) =>
  (run: Observed): Observed => ({
    ...run,
    attempts: [...run.attempts, ...run.attempts.slice(0, 1).map((one) => ({ ...one, replica }))]
  })

describe("the rules of usage", () => {
  const broken = (rule: string, run: Observed) => check(run).filter((violation) => violation.rule === rule)
  const kept = (run: Observed) => broken("spending", run).filter(({ what }) => what.includes("has used"))

  it("do not count what a process has used that does not have the plan any more", () => {
    assert.lengthOf(kept(askedBy("a")(sound)), 1)
    assert.deepStrictEqual(kept(askedBy("b")(sound)), [])
  })

  it("do not take a request as counted that a text has ended", () => {
    const spent = (run: Observed) => broken("budgets", day({ tokens: 6, tool_calls: 1_000 })(usedBefore(run)))
    assert.lengthOf(spent(sound), 1)
    assert.deepStrictEqual(spent(steered(sound)), [])
  })
})

describe("the checkers of credentials, usage and budgets", () => {
  for (const [what, rule, spoil] of violations) {
    it(`find ${what}`, () => {
      const found = check(spoil(sound)).map((violation) => violation.rule)
      assert.include(found, rule)
    })
  }
})
