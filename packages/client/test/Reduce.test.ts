import { assert, describe, it } from "vitest"
import { type Frame, initialView, type PlanView, reduce } from "../src/Bowline.ts"

const ids = { plan_id: "plan_1", session_id: "session_1" }
const start = Date.UTC(2026, 0, 1)
const usage = { input_tokens: 10, output_tokens: 4, cached_input_tokens: 2, reasoning_tokens: 1 }

/** Frames one after the other, each a second behind the one before. */
const plan = (...events: ReadonlyArray<readonly [event: string, data?: object]>): ReadonlyArray<Frame> =>
  events.map(([event, data], i) => ({
    id: i + 1,
    event,
    data: { ...ids, at: new Date(start + i * 1_000).toISOString(), ...data }
  }))

const view = (frames: ReadonlyArray<Frame>): PlanView => frames.reduce(reduce, initialView)

const attempt = { step: 1, attempt: 1 }
const text = (delta: string, at: object = attempt) => ["text.delta", { ...at, delta }] as const
const session = ["session", { external_session_id: "knots", created: true }] as const
const begun = [session, ["plan", { model: "a/b", deadline_at: "2026-01-01T01:00:00.000Z" }], ["step", attempt]] as const
const task = {
  task_id: "t1",
  tool: "ask",
  kind: "peer",
  agent: "rigger",
  skill: "ask",
  agent_did: null,
  agent_did_source: null
}
const final = { stop_reason: "stop", text: "A bowline", usage, steps: 1, tool_calls: 0, duration_ms: 5 }

describe("PlanView", () => {
  it("shows the attempts of a step: what was retracted, the wait, and the answer without it", () => {
    const seen = view(
      plan(
        ...begun,
        ["reasoning.delta", { ...attempt, delta: "Hm" }],
        text("Wro"),
        text("ng"),
        ["usage", { ...attempt, ...usage, cost_usd: 0.5 }],
        ["text.retract", attempt],
        [
          "retry",
          {
            step: 1,
            attempt: 2,
            error: { code: "provider_reset", message: "Reset" },
            delay_ms: 2_500,
            credential: "c2",
            model: "c/d"
          }
        ],
        text("A bow", { step: 1, attempt: 2 }),
        text("line", { step: 1, attempt: 3 })
      )
    )
    assert.strictEqual(seen.text, "A bowline")
    assert.strictEqual(seen.model, "c/d")
    assert.strictEqual(seen.retries, 1)
    const [first, second, third] = seen.steps[0]?.attempts ?? []
    assert.deepStrictEqual(first, {
      attempt: 1,
      startedAt: start + 2_000,
      endedAt: start + 6_000,
      firstTokenAt: start + 3_000,
      model: "a/b",
      retry: null,
      text: "Wrong",
      reasoning: "Hm",
      isRetracted: true,
      error: { code: "provider_reset", message: "Reset" },
      usage,
      costUsd: 0.5
    })
    assert.deepInclude(second, {
      attempt: 2,
      startedAt: start + 10_500,
      model: "c/d",
      text: "A bow",
      isRetracted: false
    })
    assert.deepInclude(second?.retry, { at: start + 8_000, delayMs: 2_500, credential: "c2" })
    // No frame announces a continuation.
    assert.deepInclude(third, { attempt: 3, text: "line", retry: null, model: "c/d" })
  })

  it("says what the plan waits for", () => {
    const frames = plan(
      session,
      ["queued", { position: 2, reason: "session_busy" }],
      ["plan", { model: "a/b", deadline_at: "2026-01-01T01:00:00.000Z" }],
      ["step", attempt],
      [
        "retry",
        { step: 1, attempt: 2, error: { code: "x", message: "x" }, delay_ms: 9, credential: null, model: "a/b" }
      ],
      text("Hi", { step: 1, attempt: 2 }),
      [
        "approval.requested",
        { task_id: "t2", tool: "pay", input: {}, expires_at: "2026-01-01T01:00:00.000Z", why: "sensitive" }
      ],
      ["task.started", { ...task, input: {} }],
      [
        "task.finished",
        { task_id: "t1", state: "completed", remote_task_id: null, remote_context_id: null, duration_ms: 5 }
      ],
      ["approval.resolved", { task_id: "t2", decision: "approve", by: "ann" }],
      ["step", { step: 2, attempt: 1 }],
      ["final", final]
    )
    let seen = initialView
    const stages = frames.map((frame) => (seen = reduce(seen, frame)).stage)
    assert.deepStrictEqual(stages, [
      null,
      "queue",
      null,
      "provider",
      "backoff",
      "provider",
      "approval",
      "tool",
      "approval",
      null,
      "provider",
      null
    ])
    assert.deepStrictEqual(seen.queue, { startedAt: start + 1_000, endedAt: start + 2_000, position: 2 })
  })

  it("shows each task with what it was given, what it said and how it ended", () => {
    const seen = view(
      plan(
        ...begun,
        ["task.started", { ...task, input: { q: 1 } }],
        ["task.progress", { task_id: "t1", state: "working", message: "Reading" }],
        ["task.artifact", { task_id: "t1", content: "rope", media_type: "text/plain", truncated: false, name: "a" }],
        [
          "task.finished",
          {
            task_id: "t1",
            state: "failed",
            remote_task_id: "r1",
            remote_context_id: "c1",
            duration_ms: 9,
            error: { code: "e", message: "No" }
          }
        ]
      )
    )
    assert.deepStrictEqual(seen.tasks, [
      {
        taskId: "t1",
        step: 1,
        tool: "ask",
        kind: "peer",
        agent: "rigger",
        skill: "ask",
        agentDid: null,
        agentDidSource: null,
        input: { q: 1 },
        state: "failed",
        startedAt: start + 3_000,
        endedAt: start + 6_000,
        durationMs: 9,
        remoteTaskId: "r1",
        remoteContextId: "c1",
        error: { code: "e", message: "No" },
        repeatOf: undefined,
        progress: [{ at: start + 4_000, state: "working", message: "Reading" }],
        artifacts: [
          { at: start + 5_000, content: "rope", mediaType: "text/plain", truncated: false, verified: null, name: "a" }
        ]
      }
    ])
    assert.deepInclude(seen.steps[0]?.attempts[0], { endedAt: start + 3_000 })
  })

  it("shows approvals, compactions and notices", () => {
    const seen = view(
      plan(
        ...begun,
        ["notice", { code: "tool_missing", message: "No" }],
        ["compaction", { summary: "S", tokens_before: 9, tokens_after: 3, messages_compacted: 4 }],
        [
          "approval.requested",
          { task_id: "t1", tool: "pay", input: { eur: 5 }, expires_at: "2026-01-01T01:00:00.000Z", why: "always" }
        ],
        ["approval.resolved", { task_id: "t1", decision: "reject", note: "Too much", by: "ann" }]
      )
    )
    assert.deepStrictEqual(seen.notices, [{ at: start + 3_000, code: "tool_missing", message: "No", data: null }])
    assert.deepStrictEqual(seen.compactions, [
      { at: start + 4_000, afterStep: 1, summary: "S", tokensBefore: 9, tokensAfter: 3, messagesCompacted: 4 }
    ])
    assert.deepStrictEqual(seen.approvals, [
      {
        taskId: "t1",
        step: 1,
        tool: "pay",
        agent: null,
        input: { eur: 5 },
        why: "always",
        data: undefined,
        expiresAt: start + 3_600_000,
        startedAt: start + 5_000,
        endedAt: start + 6_000,
        decision: "reject",
        note: "Too much",
        by: "ann"
      }
    ])
  })

  it("adds up tokens and cost, of summaries too, and knows no cost where a price is unknown", () => {
    const use = (step: number, cost_usd: number | null) => ["usage", { step, attempt: 1, ...usage, cost_usd }] as const
    const seen = view(plan(...begun, use(0, 0.25), use(1, 0.5)))
    assert.deepInclude(seen.usage, { input_tokens: 20, output_tokens: 8, cached_input_tokens: 4, reasoning_tokens: 2 })
    assert.strictEqual(seen.costUsd, 0.75)
    assert.strictEqual(view(plan(...begun, use(0, null), use(1, 0.5))).costUsd, null)
    assert.strictEqual(view(plan(...begun)).costUsd, null)
  })

  it("shows nothing as running behind the outcome, whatever was open", () => {
    const open = [
      ["queued", { position: 1, reason: "session_busy" }],
      ["step", attempt],
      ["task.started", { ...task, input: {} }],
      [
        "approval.requested",
        { task_id: "t2", tool: "pay", input: {}, expires_at: "2026-01-01T01:00:00.000Z", why: "always" }
      ],
      [
        "retry",
        { step: 1, attempt: 2, error: { code: "x", message: "x" }, delay_ms: 60_000, credential: null, model: "a/b" }
      ]
    ] as const
    const error = { code: "aborted", message: "Cancelled", retryable: false, stage: "tool", reason: "cancelled" }
    const frames = plan(session, ...open, ["error", error], ["done"])
    const seen = view(frames)
    const endedAt = start + 6_000
    assert.deepInclude(seen, { state: "aborted", stage: null, isDone: true, endedAt })
    assert.strictEqual(seen.queue?.endedAt, endedAt)
    assert.deepInclude(seen.tasks[0], { state: "interrupted", endedAt })
    assert.deepInclude(seen.approvals[0], { decision: null, endedAt })
    // The second attempt was never made.
    assert.deepStrictEqual(
      seen.steps[0]?.attempts.map((one) => [one.attempt, one.endedAt]),
      [[1, start + 3_000]]
    )
    // The call of the step was open until then.
    assert.strictEqual(seen.steps[0]?.endedAt, endedAt)
    assert.isFalse(view(frames.slice(0, -1)).isDone)
  })

  it("says of each attempt why it did not succeed: its own failure, or the end of the plan that it ran in", () => {
    const failure = { code: "provider_auth", message: "Wrong key", retryable: false, stage: "provider" }
    const spent = ["usage", { ...attempt, ...usage, cost_usd: null }] as const
    const next = { step: 2, attempt: 1 }
    const errorsOf = (...events: ReadonlyArray<readonly [event: string, data?: object]>) =>
      view(plan(...begun, ...events)).steps.map(({ attempts }) => attempts.map(({ error }) => error?.code))
    const called = [
      "task.finished",
      { task_id: "t1", state: "completed", remote_task_id: null, remote_context_id: null, duration_ms: 5 }
    ] as const
    assert.deepStrictEqual(errorsOf(["error", failure]), [["provider_auth"]])
    assert.deepStrictEqual(errorsOf(spent, ["error", failure]), [["provider_auth"]])
    assert.deepStrictEqual(errorsOf(spent, ["error", { ...failure, stage: "compaction" }]), [[undefined]])
    assert.deepStrictEqual(errorsOf(spent, ["error", { ...failure, code: "storage" }]), [[undefined]])
    assert.deepStrictEqual(errorsOf(text("Hi"), ["error", { ...failure, code: "aborted", reason: "deadline" }]), [
      ["aborted"]
    ])
    assert.deepStrictEqual(errorsOf(text("Hi"), ["final", final]), [[undefined]])
    // Its calls were made: what failed is behind it.
    assert.deepStrictEqual(errorsOf(["task.started", { ...task, input: {} }], called, ["error", failure]), [
      [undefined]
    ])
    assert.deepStrictEqual(
      errorsOf(["task.started", { ...task, input: {} }], called, ["step", next], ["error", failure]),
      [[undefined], ["provider_auth"]]
    )
  })

  it("ends a step with the last of what it did, however late the next one begins", () => {
    const called = [
      "task.finished",
      { task_id: "t1", state: "completed", remote_task_id: null, remote_context_id: null, duration_ms: 5 }
    ] as const
    const compaction = [
      "compaction",
      { summary: "S", tokens_before: 9, tokens_after: 3, messages_compacted: 4 }
    ] as const
    const started = ["task.started", { ...task, input: {} }] as const
    const seen = view(plan(...begun, started, called, compaction, ["step", { step: 2, attempt: 1 }]))
    assert.strictEqual(seen.steps[0]?.endedAt, start + 4_000)
    const error = { code: "internal", message: "A bug", retryable: false, stage: null }
    assert.strictEqual(
      view(plan(...begun, started, called, compaction, ["error", error])).steps[0]?.endedAt,
      start + 4_000
    )
    assert.strictEqual(view(plan(...begun, text("Hi"), ["error", error])).steps[0]?.endedAt, start + 4_000)
  })

  it("ends with the text of final", () => {
    const seen = view(plan(...begun, text("A bow"), ["final", final], ["done"]))
    assert.deepInclude(seen, { state: "completed", text: "A bowline", endedAt: start + 4_000 })
    assert.strictEqual(seen.outcome?.state === "completed" ? seen.outcome.final.text : "", "A bowline")
  })

  it("is the same object behind a frame that comes again, and behind an event of a later version", () => {
    const frames = plan(...begun, text("Hi"))
    const seen = view(frames)
    for (const frame of frames) assert.strictEqual(reduce(seen, frame), seen)
    const [later] = plan(["event.of.later", {}])
    assert.strictEqual(reduce(seen, { ...(later as Frame), id: 99 }), seen)
  })

  it("leaves every earlier view as it is, and keeps what a frame does not touch", () => {
    const frames = plan(
      ...begun,
      ["task.started", { ...task, input: {} }],
      ["step", { step: 2, attempt: 1 }],
      text("Hi", { step: 2, attempt: 1 })
    )
    const views = frames.map((_, i) => view(frames.slice(0, i + 1)))
    const copies = structuredClone(views)
    const last = views.at(-1) ?? initialView
    const next = reduce(last, { id: 7, event: "text.delta", data: { ...ids, step: 2, attempt: 1, delta: "!" } })
    assert.deepStrictEqual(views, copies)
    assert.strictEqual(next.tasks, last.tasks)
    assert.strictEqual(next.steps[0], last.steps[0])
    assert.strictEqual(next.text, "Hi!")
    assert.strictEqual(last.text, "Hi")
  })

  it("shows what there is when the first frames were not seen", () => {
    const seen = view(plan(...begun, text("A bow"), text("line")).slice(4))
    assert.strictEqual(seen.text, "line")
    assert.strictEqual(seen.steps[0]?.attempts[0]?.text, "line")
  })
})
