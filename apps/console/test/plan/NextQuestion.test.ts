import type { Plan } from "@bowline/client"
import { assert, describe, it } from "@effect/vitest"
import { destinationOf, nextRequest } from "../../src/plan/NextQuestion.ts"

const plan: Plan = {
  plan_id: "plan_1",
  session_id: "session_1",
  external_session_id: null,
  state: "completed",
  stage: null,
  model: "demo/demo",
  caller: "ann",
  trace_id: null,
  preset: "desk",
  created_at: "2026-01-01T00:00:00.000Z",
  deadline_at: "2026-01-01T00:30:00.000Z",
  finished_at: "2026-01-01T00:00:01.000Z",
  steps: 1,
  tool_calls: 0,
  retries: 0,
  usage: { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0, reasoning_tokens: 0 },
  cost_usd: null,
  error: null,
  metadata: {},
  question: "One?",
  final: null,
  request: null
}

describe("the next question of a session", () => {
  it("has the agents, the preset and the preferences of the plan, and nothing that only begins a session", () => {
    const agents = [{ name: "bank", endpoint: "http://bank/" }]
    const request = {
      agents,
      history: [{ role: "user", content: "x" }],
      prior_summary: "y",
      metadata: { ticket: "1" },
      preferences: { max_steps: 3, on_busy: "reject" }
    }
    assert.deepStrictEqual(nextRequest({ ...plan, request }, "Two?"), {
      agents,
      preset: "desk",
      preferences: { max_steps: 3, on_busy: "queue", on_disconnect: "continue" },
      question: "Two?",
      session_id: "session_1"
    })
    assert.deepInclude(nextRequest({ ...plan, preset: null }, "Two?"), { question: "Two?", session_id: "session_1" })
  })

  it("is asked in the session of a plan that is over, and said to one that is not", () => {
    assert.deepInclude(destinationOf(true), { place: "session", what: "Next question" })
    assert.deepInclude(destinationOf(false), { place: "inbox", what: "Say to the plan" })
  })
})
