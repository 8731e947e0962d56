import { assert, describe, it } from "@effect/vitest"
import { outcomeOf, stageWords } from "../../src/plan/OutcomeWords.ts"

describe("outcomeOf", () => {
  it("says in words why a plan was aborted, what it waited for, and whether to try again", () => {
    const error = { code: "aborted", message: "x", retryable: true, stage: "tool", reason: "deadline" } as const
    assert.deepStrictEqual(outcomeOf({ state: "aborted", error }), {
      code: "aborted: deadline",
      words: "Its time was over. It waited for a tool. The same question may succeed later."
    })
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

  it("says what a running plan waits for", () => {
    assert.strictEqual(stageWords("running", "approval"), "waits for approval")
    assert.strictEqual(stageWords("running", "provider"), "running")
    assert.strictEqual(stageWords("queued", null), "queued")
  })
})
