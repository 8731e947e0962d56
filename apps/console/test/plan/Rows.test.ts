import { initialView, reduce } from "@bowline/client"
import { assert, describe, it } from "@effect/vitest"
import { openRows, rowsOf } from "../../src/plan/Rows.ts"
import { begun, framesOf, since, task, viewOf } from "./Frames.ts"

const shown = (view: Parameters<typeof rowsOf>[0]) =>
  rowsOf(view).map(({ from, id, state, to }) => [id, state, since(from), since(to)])

describe("rowsOf", () => {
  it("has a row for the queue, each step, attempt, retry wait, approval, call and compaction, each with its time", () => {
    const view = viewOf([
      ...begun,
      [600, "text.delta", { step: 1, attempt: 1, delta: "Hel" }],
      [700, "text.retract", { step: 1, attempt: 1 }],
      [
        700,
        "retry",
        {
          step: 1,
          attempt: 2,
          error: { code: "provider_overloaded", message: "busy" },
          delay_ms: 300,
          credential: "a",
          model: "demo/demo"
        }
      ],
      [
        1_200,
        "usage",
        {
          step: 1,
          attempt: 2,
          input_tokens: 10,
          output_tokens: 5,
          cached_input_tokens: 0,
          reasoning_tokens: 0,
          cost_usd: null
        }
      ],
      [
        1_300,
        "approval.requested",
        { task_id: "t1", tool: "weather_forecast", input: {}, expires_at: "2026-01-01T00:01:00.000Z", why: "always" }
      ],
      [2_000, "approval.resolved", { task_id: "t1", decision: "approve", by: "alice" }],
      [2_100, "task.started", task("t1", { city: "Kiel" })],
      [
        3_000,
        "task.finished",
        { task_id: "t1", state: "timed-out", remote_task_id: null, remote_context_id: null, duration_ms: 900 }
      ],
      [3_100, "compaction", { summary: "s", tokens_before: 900, tokens_after: 100, messages_compacted: 4 }],
      [3_200, "step", { step: 2, attempt: 1 }]
    ])
    assert.deepStrictEqual(shown(view), [
      ["queue", "waited", 0, 500],
      ["step-1", "finished", 500, 3_000],
      ["attempt-1-1", "retracted", 500, 700],
      ["retry-1-2", "waited 300 ms", 700, 1_000],
      ["attempt-1-2", "finished", 1_000, 1_200],
      ["approval-t1", "approved by alice", 1_300, 2_000],
      ["task-t1", "timed-out", 2_100, 3_000],
      ["compaction-1", "900 to 100 tokens", 3_100, 3_100],
      ["step-2", "running", 3_200, null],
      ["attempt-2-1", "running", 3_200, null]
    ])
  })

  it("has rows of their own for the approval and the call of a plan without steps", () => {
    const [session, queued, planned] = begun
    const view = viewOf([
      session,
      queued,
      planned,
      [
        600,
        "approval.requested",
        { task_id: "t1", tool: "x", input: {}, expires_at: "2026-01-01T00:01:00.000Z", why: "always" }
      ],
      [700, "approval.resolved", { task_id: "t1", decision: "approve", by: "alice" }],
      [800, "task.started", task("t1")]
    ])
    assert.deepStrictEqual(
      rowsOf(view).map(({ id, level, parent }) => [id, level, parent]),
      [
        ["queue", 1, null],
        ["approval-t1", 1, null],
        ["task-t1", 1, null]
      ]
    )
  })

  it("leaves nothing running behind the outcome of a plan", () => {
    const view = viewOf([
      ...begun,
      [900, "task.started", task("t1")],
      [
        1_000,
        "approval.requested",
        { task_id: "t2", tool: "x", input: {}, expires_at: "2026-01-01T00:01:00.000Z", why: "always" }
      ],
      [1_500, "error", { code: "aborted", message: "cancelled", retryable: false, stage: "tool", reason: "cancelled" }]
    ])
    const rows = rowsOf(view)
    assert.deepStrictEqual(
      rows.filter(({ to }) => to === null),
      []
    )
    assert.deepStrictEqual(
      rows.filter(({ tone }) => tone === "running" || tone === "waiting"),
      []
    )
  })

  it("says of each attempt, wait and step how it went: green is only what succeeded", () => {
    const retry = {
      step: 1,
      attempt: 2,
      error: { code: "provider_overloaded", message: "busy" },
      delay_ms: 300,
      credential: "a",
      model: "demo/demo"
    }
    const usage = { input_tokens: 1, output_tokens: 1, cached_input_tokens: 0, reasoning_tokens: 0, cost_usd: null }
    const tonesOf = (...more: Parameters<typeof viewOf>[0]) =>
      rowsOf(viewOf([...begun, ...more]))
        .slice(1)
        .map(({ id, state, tone }) => [id, state, tone])
    const failed = { code: "provider_auth", message: "Wrong key", retryable: false, stage: "provider" }
    assert.deepStrictEqual(tonesOf([700, "retry", retry]), [
      ["step-1", "running", "running"],
      ["attempt-1-1", "failed", "bad"],
      ["retry-1-2", "waits 300 ms", "waiting"],
      ["attempt-1-2", "running", "running"]
    ])
    assert.deepStrictEqual(
      tonesOf([700, "retry", retry], [1_200, "usage", { step: 1, attempt: 2, ...usage }], [1_200, "error", failed]),
      [
        ["step-1", "failed", "bad"],
        ["attempt-1-1", "failed", "bad"],
        ["retry-1-2", "waited 300 ms", "plain"],
        ["attempt-1-2", "failed", "bad"]
      ]
    )
    const aborted = (reason: string) => ({ code: "aborted", message: "x", retryable: false, stage: "provider", reason })
    assert.deepStrictEqual(tonesOf([900, "error", aborted("deadline")]), [
      ["step-1", "out of time", "bad"],
      ["attempt-1-1", "out of time", "bad"]
    ])
    assert.deepStrictEqual(tonesOf([900, "error", aborted("cancelled")]), [
      ["step-1", "cut", "warn"],
      ["attempt-1-1", "cut", "warn"]
    ])
    const loop = { code: "loop_detected", message: "Again", retryable: false, stage: "tool" }
    const finished = { task_id: "t1", state: "failed", remote_task_id: null, remote_context_id: null, duration_ms: 9 }
    assert.deepStrictEqual(
      tonesOf([600, "task.started", task("t1")], [700, "task.finished", finished], [700, "error", loop]),
      [
        ["step-1", "failed", "bad"],
        ["attempt-1-1", "finished", "good"],
        ["task-t1", "failed", "bad"]
      ]
    )
  })

  it("hides what belongs to a closed step, and only that", () => {
    const rows = rowsOf(viewOf([...begun, [600, "task.started", task("t1")], [700, "step", { step: 2, attempt: 1 }]]))
    assert.deepStrictEqual(
      openRows(rows, new Set(["step-1"])).map(({ id }) => id),
      ["queue", "step-1", "step-2", "attempt-2-1"]
    )
  })

  it("keeps the rows of calls that have not changed, however many frames come", () => {
    const frames = framesOf([
      ...begun,
      [600, "task.started", task("t1")],
      [700, "text.delta", { step: 1, attempt: 1, delta: "a" }]
    ])
    let view = initialView
    const [first, second] = frames
      .map((frame) => {
        view = reduce(view, frame)
        return rowsOf(view).find(({ id }) => id === "task-t1")
      })
      .slice(-2)
    assert.isDefined(first)
    assert.strictEqual(first, second)
  })
})
