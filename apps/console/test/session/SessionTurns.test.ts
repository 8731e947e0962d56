import type { PlanSummary } from "@bowline/client"
import { assert, describe, it } from "@effect/vitest"
import { conversationOf } from "../../src/session/SessionTurns.ts"
import { call, historyOf, result, text } from "../Messages.ts"

const planOf = (plan_id: string, state: PlanSummary["state"]): PlanSummary => ({
  plan_id,
  session_id: "session_1",
  external_session_id: null,
  state,
  stage: null,
  model: "demo/demo",
  caller: "ann",
  trace_id: null,
  preset: null,
  created_at: "2026-01-01T00:00:00.000Z",
  deadline_at: "2026-01-01T00:30:00.000Z",
  finished_at: null,
  steps: 1,
  tool_calls: 0,
  retries: 0,
  usage: { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0, reasoning_tokens: 0 },
  cost_usd: null,
  error: null,
  metadata: {},
  question_preview: "?",
  final: null
})

const history = historyOf([
  ["plan_1", "user", [text("One?")]],
  ["plan_1", "assistant", [text("I look."), call("t1", "find"), call("t2", "search")]],
  ["plan_1", "tool", [result("t1", "a")]],
  ["plan_1", "tool", [result("t2", "b")]],
  ["plan_1", "assistant", [call("t3", "find")]],
  ["plan_1", "tool", [result("t3", "c")]],
  ["plan_1", "assistant", [text("Here.")]],
  ["plan_2", "user", [text("Two?")]]
])

describe("conversationOf", () => {
  it("keeps what was said open, and folds all calls between into one entry of their plan", () => {
    const turns = conversationOf(history, [planOf("plan_2", "failed"), planOf("plan_1", "completed")], true)
    assert.deepStrictEqual(
      turns.map(({ entries, plan }) => [
        plan?.state,
        entries.map((entry) => (entry.kind === "said" ? entry.message.role : entry.tools))
      ]),
      [
        ["completed", ["user", ["find", "search", "find"], "assistant"]],
        ["failed", ["user"]]
      ]
    )
  })

  it("has the plans that have said nothing yet at its end, the oldest first, once the history is whole", () => {
    const plans = [planOf("plan_4", "queued"), planOf("plan_3", "queued"), planOf("plan_0", "aborted")]
    const ids = (isWhole: boolean) => conversationOf(history, plans, isWhole).map(({ planId }) => planId)
    assert.deepStrictEqual(ids(true), ["plan_1", "plan_2", "plan_3", "plan_4"])
    assert.deepStrictEqual(ids(false), ["plan_1", "plan_2"])
  })
})
