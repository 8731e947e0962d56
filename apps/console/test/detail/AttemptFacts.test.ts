import { assert, describe, it } from "@effect/vitest"
import { credentialOf, endOf, findAttempt, speedOf } from "../../src/detail/AttemptFacts.ts"
import { begun, task, viewOf } from "../plan/Frames.ts"

const retry = {
  step: 1,
  attempt: 2,
  error: { code: "provider_overloaded", message: "busy" },
  delay_ms: 0,
  credential: "openai-2",
  model: "openai/other"
}
const used = { input_tokens: 10, output_tokens: 30, cached_input_tokens: 4, reasoning_tokens: 0, cost_usd: null }
const final = { stop_reason: "stop", text: "x", usage: used, steps: 1, tool_calls: 0, duration_ms: 1 }

const factsOf = (row: string, ...more: Parameters<typeof viewOf>[0]) => {
  const view = viewOf([...begun, ...more])
  const place = findAttempt(view, row)
  if (place === undefined) throw new Error(`no attempt ${row}`)
  return {
    model: place.attempt.model,
    end: endOf(view, place),
    credential: credentialOf(view, place),
    speed: speedOf(place.attempt)
  }
}

describe("the facts of an attempt", () => {
  it("name the model of the first attempt and of each other one, and the key where a frame has named it", () => {
    const frames: Parameters<typeof viewOf>[0] = [[600, "retry", retry]]
    assert.deepInclude(factsOf("1-1", ...frames), { model: "demo/demo", credential: null, end: "provider_overloaded" })
    assert.deepInclude(factsOf("1-2", ...frames), { model: "openai/other", credential: "openai-2", end: null })
    const refused = {
      code: "provider_auth",
      message: "no",
      retryable: false,
      stage: "provider",
      data: { credential: "openai-1" }
    }
    assert.deepInclude(factsOf("1-1", [700, "error", refused]), { credential: "openai-1", end: "provider_auth" })
  })

  it("say how its answer ended: with calls, at its length, or as the plan's last word", () => {
    assert.strictEqual(factsOf("1-1", [600, "task.started", task("t1")]).end, "tool calls (1 call)")
    const delta = { step: 1, attempt: 2, delta: "more" }
    assert.strictEqual(
      factsOf("1-1", [600, "usage", { step: 1, attempt: 1, ...used }], [700, "text.delta", delta]).end,
      "max_tokens, continued by attempt 2"
    )
    assert.strictEqual(factsOf("1-1", [600, "final", final]).end, "stop")
    const late = { code: "aborted", message: "x", retryable: true, stage: "provider", reason: "deadline" }
    assert.strictEqual(factsOf("1-1", [600, "error", late]).end, "aborted: deadline")
  })

  it("count the tokens of a second from the first piece to the end", () => {
    const delta = { step: 1, attempt: 1, delta: "x" }
    const usage = { step: 1, attempt: 1, ...used }
    assert.strictEqual(factsOf("1-1", [1_000, "text.delta", delta], [2_000, "usage", usage]).speed, 30)
    assert.isNull(factsOf("1-1", [1_000, "text.delta", delta], [1_010, "usage", usage]).speed)
  })
})
