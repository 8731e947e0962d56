import { initialView, type Plan } from "@bowline/client"
import { assert, describe, it } from "@effect/vitest"
import { settled } from "../../src/live/Settled.ts"
import { rowsOf } from "../../src/plan/Rows.ts"
import { begun, since, task, viewOf } from "../plan/Frames.ts"

const usage = { input_tokens: 1, output_tokens: 2, cached_input_tokens: 0, reasoning_tokens: 0 }
const plan = {
  plan_id: "plan_1",
  session_id: "session_1",
  state: "running",
  created_at: "2026-01-01T00:00:00.000Z",
  finished_at: null,
  final: null,
  error: null
} as unknown as Plan
const completed: Plan = {
  ...plan,
  state: "completed",
  finished_at: "2026-01-01T00:00:09.000Z",
  final: { stop_reason: "stop", text: "All of it.", usage, steps: 1, tool_calls: 1, duration_ms: 9_000 }
}
const failed: Plan = {
  ...plan,
  state: "failed",
  finished_at: "2026-01-01T00:00:09.000Z",
  error: { code: "interrupted", message: "The process died", retryable: true, stage: null }
}

describe("settled", () => {
  it("ends everything that the stream has left open when the record says that the plan is over", () => {
    const cut = viewOf([
      ...begun,
      [600, "text.delta", { step: 1, attempt: 1, delta: "All o" }],
      [700, "task.started", task("t1")]
    ])
    const view = settled(cut, completed)
    assert.strictEqual(view.text, "All of it.")
    assert.strictEqual(view.state, "completed")
    assert.strictEqual(since(view.endedAt), 9_000)
    assert.deepStrictEqual(
      rowsOf(view).filter(({ to }) => to === null),
      []
    )
  })

  it("says why a plan failed of which no event came", () => {
    const { endedAt, outcome, startedAt } = settled(initialView, failed)
    assert.deepStrictEqual([since(startedAt), since(endedAt)], [0, 9_000])
    assert.strictEqual(outcome?.state, "failed")
    assert.strictEqual(outcome?.state === "failed" ? outcome.error.code : "", "interrupted")
  })

  it("changes nothing while the plan runs, without a record, and where the stream has told the end", () => {
    const running = viewOf(begun)
    const ended = viewOf([
      ...begun,
      [800, "final", { stop_reason: "stop", text: "Hi", usage, steps: 1, tool_calls: 0, duration_ms: 800 }]
    ])
    assert.strictEqual(settled(running, plan), running)
    assert.strictEqual(settled(running, undefined), running)
    assert.strictEqual(settled(ended, failed), ended)
  })
})
