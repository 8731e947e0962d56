import { initialView } from "@bowline/client"
import { assert, describe, it } from "@effect/vitest"
import { promptEntries } from "../../src/detail/PromptEntries.ts"
import { call, historyOf, result, text } from "../Messages.ts"

const history = historyOf([
  ["plan_0", "user", [text("Before")]],
  ["plan_0", "assistant", [text("It was so.")]],
  ["plan_1", "user", [text("Now")]],
  ["plan_1", "assistant", [{ type: "text", text: "Half of", partial: true }]],
  ["plan_1", "assistant", [text("I look."), call("t1", "find", { n: 1 })]],
  ["plan_1", "tool", [result("t1", "found")]],
  ["plan_1", "assistant", [text("Here.")]],
  ["plan_2", "user", [text("Later")]]
])
const view = { ...initialView, planId: "plan_1" }
const said = (...given: Parameters<typeof promptEntries>) =>
  promptEntries(...given).map(({ isOwn, role, text }) => `${isOwn ? "" : "earlier "}${role}: ${text}`)

describe("promptEntries", () => {
  it("has what stood in front of a step's own answer, without text of an attempt that broke", () => {
    assert.deepStrictEqual(said(history, view, 1, null), [
      "earlier user: Before",
      "earlier assistant: It was so.",
      "user: Now"
    ])
    assert.deepStrictEqual(said(history, view, 2, null).slice(3), [
      'assistant: I look.\n\n[calls find]\n{\n  "n": 1\n}',
      "tool: [completed]\nfound"
    ])
    // A step that failed has no answer: all of its plan stood in front of it.
    assert.strictEqual(said(history, view, 3, null).length, 6)
  })

  it("has the summary in place of the messages that it replaces, unless it was made later", () => {
    const compacted = history.map((message, index) => ({ ...message, compacted: index < 2 }))
    assert.deepStrictEqual(said(compacted, view, 1, "Once."), ["earlier summary: Once.", "user: Now"])
    const later = history.map((message, index) => ({ ...message, compacted: index < 4 }))
    assert.strictEqual(said(later, view, 1, "Once.")[0], "earlier user: Before")
    const made = { at: 0, afterStep: 0, summary: "Then.", tokensBefore: 9, tokensAfter: 3, messagesCompacted: 2 }
    const own = { ...view, compactions: [made] }
    assert.deepStrictEqual(said(compacted, own, 1, "Newer."), ["earlier summary: Then.", "user: Now"])
  })
})
