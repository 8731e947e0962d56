import { initialView, type Plan } from "@bowline/client"
import { assert, describe, it } from "@effect/vitest"
import { settled } from "../../src/live/Settled.ts"
import { numbersOf } from "../../src/plan/Numbers.ts"
import { begun, since, task, viewOf } from "./Frames.ts"

const usage = { input_tokens: 600, output_tokens: 12, cached_input_tokens: 0, reasoning_tokens: 0 }
const none = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0, reasoning_tokens: 0 }
const running = {
  plan_id: "plan_1",
  session_id: "session_1",
  state: "running",
  stage: "provider",
  model: "a/b",
  created_at: "2026-01-01T00:00:00.000Z",
  finished_at: null,
  steps: 4,
  tool_calls: 3,
  retries: 1,
  usage,
  cost_usd: 0.5,
  final: null,
  error: null
} as unknown as Plan
const failed: Plan = {
  ...running,
  state: "failed",
  stage: null,
  finished_at: "2026-01-01T00:00:02.100Z",
  error: { code: "interrupted", message: "The process died", retryable: true, stage: null }
}

describe("numbersOf", () => {
  it("has the record's own numbers while no event has come, and knows nothing of what only events tell", () => {
    const numbers = numbersOf(failed, settled(initialView, failed), false)
    assert.deepInclude(numbers, { state: "failed", steps: 4, calls: 3, retries: 1, usage, costUsd: 0.5 })
    assert.deepInclude(numbers, { failedCalls: null, firstTokenMs: null })
    assert.deepStrictEqual([since(numbers.startedAt), since(numbers.endedAt)], [0, 2_100])
  })

  it("has those of the events of a plan that runs, where they are heard", () => {
    const view = viewOf([
      ...begun,
      [900, "text.delta", { step: 1, attempt: 1, delta: "Hi" }],
      [1_000, "task.started", task("t1")]
    ])
    assert.deepInclude(numbersOf(running, view, false), {
      steps: 1,
      calls: 1,
      failedCalls: 0,
      usage: null,
      firstTokenMs: 900
    })
    assert.deepInclude(numbersOf(running, view, true), { steps: 4, calls: 3, failedCalls: null, usage })
  })

  it("counts the calls that failed", () => {
    const ends = ["completed", "failed", "timed-out", "interrupted"].map(
      (state, index) =>
        [
          1_100,
          "task.finished",
          { task_id: `t${index}`, state, remote_task_id: null, remote_context_id: null, duration_ms: 9 }
        ] as const
    )
    const starts = ends.map((_, index) => [1_000, "task.started", task(`t${index}`)] as const)
    assert.strictEqual(numbersOf(running, viewOf([...begun, ...starts, ...ends]), false).failedCalls, 3)
  })

  it("knows no tokens where the provider reported none", () => {
    assert.isNull(numbersOf({ ...failed, usage: none }, initialView, false).usage)
  })
})
