import { assert, describe, it } from "@effect/vitest"
import { outcomeOf, reasonOf, stageWords } from "../../src/plan/OutcomeWords.ts"

describe("outcomeOf", () => {
  it("gives the reason of an abort with its code", () => {
    const error = { code: "aborted", message: "x", retryable: true, stage: "tool", reason: "deadline" } as const
    assert.deepStrictEqual(outcomeOf({ state: "aborted", error }), { code: "aborted: deadline", words: "x" })
  })

  it("repeats what a failure says of itself", () => {
    const error = {
      code: "loop_detected",
      message: "The same call failed 3 times.",
      retryable: false,
      stage: null
    } as const
    assert.deepStrictEqual(outcomeOf({ state: "failed", error }), {
      code: "loop_detected",
      words: "The same call failed 3 times."
    })
  })

  it("says in a few words why a plan did not complete, and in what", () => {
    const error = { message: "x", retryable: true, stage: "tool" } as const
    const reasons = [
      { ...error, code: "aborted", reason: "deadline", data: { tool: "archive_search" } },
      { ...error, code: "aborted", reason: "deadline", stage: "provider" },
      { ...error, code: "aborted", reason: "cancelled" },
      { ...error, code: "provider_auth", data: { credential: "openai-1" } },
      { ...error, code: "storage" }
    ] as const
    assert.deepStrictEqual(reasons.map(reasonOf), [
      "deadline in archive_search",
      "deadline in stage provider",
      "cancelled",
      "provider_auth of openai-1",
      "storage"
    ])
  })

  it("says what a running plan waits for", () => {
    assert.strictEqual(stageWords("running", "approval"), "waits for approval")
    assert.strictEqual(stageWords("running", "provider"), "running")
    assert.strictEqual(stageWords("queued", null), "queued")
  })
})
