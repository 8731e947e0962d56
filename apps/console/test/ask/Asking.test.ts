import { assert, describe, it } from "@effect/vitest"
import { requestOf } from "../../src/ask/Asking.ts"
import { surviving } from "../../src/plan/Request.ts"

const asking = { question: "Why?", preset: "", session: "", more: "" }

describe("requestOf", () => {
  it("asks for a plan that runs on when the tab is closed", () => {
    assert.deepStrictEqual(requestOf(asking), {
      request: { question: "Why?", preferences: { on_disconnect: "continue" } }
    })
    assert.deepStrictEqual(
      surviving({ question: "a", preferences: { on_disconnect: "cancel", max_steps: 2 } }).preferences,
      {
        on_disconnect: "continue",
        max_steps: 2
      }
    )
  })

  it("puts what was filled in on top of the rest of the request", () => {
    assert.deepStrictEqual(
      requestOf({
        question: "Why?",
        preset: "demo",
        session: " s1 ",
        more: '{"preset": "x", "preferences": {"max_steps": 3}}'
      }),
      {
        request: {
          question: "Why?",
          preset: "demo",
          session_id: "s1",
          preferences: { max_steps: 3, on_disconnect: "continue" }
        }
      }
    )
  })

  it.each([
    ["a blank question", { question: "  \n" }, "question"],
    ["JSON that does not parse", { more: "{" }, "JSON object"],
    ["JSON that is no object", { more: "[1]" }, "JSON object"]
  ])("says what to write instead of %s", (_, changes, words) => {
    const made = requestOf({ ...asking, ...changes })
    assert.include("problem" in made ? made.problem : "", words)
  })
})
