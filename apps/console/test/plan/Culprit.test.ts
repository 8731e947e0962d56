import type { Failure } from "@bowline/client"
import { assert, describe, it } from "@effect/vitest"
import { culpritOf } from "../../src/plan/Culprit.ts"
import { begun, task, viewOf } from "./Frames.ts"

const start = Date.UTC(2026, 0, 1)
const times = { startedAt: start, endedAt: start + 3_000, deadlineAt: start + 3_000 }

const retry = {
  step: 1,
  attempt: 2,
  error: { code: "provider_overloaded", message: "busy" },
  delay_ms: 60_000,
  credential: "openai-2",
  model: "openai/gpt"
}

const ended = (task_id: string, state: string) => ({
  task_id,
  state,
  remote_task_id: null,
  remote_context_id: null,
  duration_ms: 100
})

const culprit = (error: Failure, ...more: Parameters<typeof viewOf>[0]) =>
  culpritOf(viewOf([...begun, ...more, [3_000, "error", error]]), error, times)

const aborted = (stage: Failure["stage"], reason: NonNullable<Failure["reason"]> = "deadline"): Failure => ({
  code: "aborted",
  message: "x",
  retryable: true,
  stage,
  reason
})

describe("culpritOf", () => {
  it("names the call that had not answered when the time was over, its peer and for how long", () => {
    const found = culprit(
      aborted("tool"),
      [600, "task.started", task("t1")],
      [700, "task.started", task("t2")],
      [900, "task.finished", ended("t2", "completed")]
    )
    assert.deepStrictEqual(found, {
      sentence: "The deadline (3 s) passed while weather_forecast (peer weather) had not answered for 2.4 s.",
      row: "task-t1",
      isFault: true,
      place: { href: "/peers", label: "Peer weather" },
      docs: "operations/peer-fails"
    })
  })

  it("says what else the time of a plan was spent on", () => {
    const said = (error: Failure, ...more: Parameters<typeof viewOf>[0]) => culprit(error, ...more).sentence
    assert.strictEqual(
      said(aborted("provider")),
      "The deadline (3 s) passed while demo/demo had not begun to answer for 2.5 s."
    )
    assert.strictEqual(
      said(aborted("provider"), [600, "text.delta", { step: 1, attempt: 1, delta: "Hi" }]),
      "The deadline (3 s) passed while demo/demo had not finished its answer for 2.5 s."
    )
    assert.strictEqual(
      said(aborted("backoff"), [1_000, "retry", retry]),
      "The deadline (3 s) passed while the gateway waited to ask openai/gpt again: it had failed with provider_overloaded: busy."
    )
    const asked = { task_id: "t1", tool: "pay", input: {}, expires_at: "2026-01-01T00:01:00.000Z", why: "always" }
    assert.strictEqual(
      said(aborted("approval"), [1_000, "approval.requested", asked]),
      "The deadline (3 s) passed while nobody had decided about pay for 2 s."
    )
  })

  it("blames nobody for a plan that was cancelled, and says what it was doing", () => {
    assert.deepStrictEqual(culprit(aborted("tool", "cancelled"), [600, "task.started", task("t1")]), {
      sentence: "Somebody cancelled it, after 3 s, while weather_forecast (peer weather) had not answered for 2.4 s.",
      row: "task-t1",
      isFault: false,
      place: undefined,
      docs: "reference/stream#error-codes"
    })
  })

  it("names the key that was refused, and the one that is blocked since an earlier refusal", () => {
    const auth = { code: "provider_auth", retryable: false, stage: "provider" } as const
    const data = { attempts: 1, reasons: ["auth"], credential: "openai-1" }
    assert.deepInclude(culprit({ ...auth, message: "Incorrect API key provided", data }), {
      sentence: "demo refused the key openai-1 after 1 attempt in 3 s: Incorrect API key provided.",
      row: "attempt-1-1",
      place: { href: "/credentials", label: "Credential openai-1" },
      docs: "operations/provider-fails"
    })
    const message =
      "No credential is free for demo/demo: openai-1 is blocked for auth since 2026-01-01T00:00:00.000Z, until 2026-01-01T00:10:00.000Z."
    assert.deepInclude(culprit({ ...auth, message, data: { attempts: 0, reasons: [] } }), {
      sentence: `demo was not asked: ${message}`,
      place: { href: "/credentials", label: "Credential openai-1" }
    })
  })

  it("says which call of a loop failed, how often and with what", () => {
    const calls = ["t1", "t2", "t3"].flatMap(
      (id, index) =>
        [
          [600 + index * 500, "task.started", task(id)],
          [700 + index * 500, "task.finished", ended(id, "failed")]
        ] as const
    )
    const data = { tool: "weather_forecast", state: "failed", error: "out of rope" }
    const found = culprit({ code: "loop_detected", message: "x", retryable: false, stage: "tool", data }, ...calls)
    assert.strictEqual(
      found.sentence,
      "weather_forecast (peer weather) failed 3 times within 1.1 s, and the model went on making the same call: out of rope."
    )
    assert.strictEqual(found.row, "task-t3")
  })

  it("names the database, the process and the schema where they were it", () => {
    const of = (code: string, message: string, data?: Failure["data"]) =>
      culprit({ code, message, retryable: true, stage: "provider", ...(data === undefined ? {} : { data }) })
    const storage = of("storage", "The database did not answer within 30 s")
    assert.strictEqual(
      storage.sentence,
      "The database failed the plan in step 1, 3 s after its start: The database did not answer within 30 s."
    )
    assert.strictEqual(storage.docs, "operations/database-away")
    assert.strictEqual(
      of("interrupted", "x").sentence,
      "The process that ran the plan died in step 1; another one noticed 3 s after its start."
    )
    assert.strictEqual(
      of("output_invalid", "x", { problem: "/city is missing" }).sentence,
      "The answer of demo/demo did not match response_format, nor did its repair, after 3 s: /city is missing."
    )
    assert.strictEqual(
      of("provider_bad_request", "Invalid schema for function weather_forecast", { attempts: 1 }).sentence,
      "demo refused the request after 1 attempt in 3 s: Invalid schema for function weather_forecast."
    )
  })

  it("cuts what others have said", () => {
    const { sentence } = culprit({ code: "storage", message: "x".repeat(9_000), retryable: true, stage: null })
    assert.isBelow(sentence.length, 500)
  })
})
