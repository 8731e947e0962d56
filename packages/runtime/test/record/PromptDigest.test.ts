import { TaskId } from "@bowline/domain/tool/TaskState"
import { assert, describe, it } from "@effect/vitest"
import { digestOf, isSame, of } from "../../src/record/PromptDigest.ts"

const one = "01a2213b-e919-74bc-be78-ee4211e56b7d"
const other = "32bfba18-d9a6-44de-88d1-303cc896e3e3"

describe("the digest of a prompt", () => {
  it("is the same for texts that differ in ids alone, and only for those", () => {
    const text = (id: string) => `see task_${id}, and ${id} - again`
    assert.strictEqual(digestOf(text(one)), digestOf(text(other)))
    // Records of the version before have been digested so.
    assert.strictEqual(digestOf(text(one)), digestOf(text("#")))
    assert.notStrictEqual(digestOf(text(one)), digestOf(text(one).replace("again", "anew")))
    // Of what is nearly an id each character counts.
    for (const near of [one.slice(1), one.slice(0, -1), one.replace("-", "_"), one.toUpperCase()]) {
      assert.notStrictEqual(digestOf(text(near)), digestOf(text(one)))
    }
    assert.notStrictEqual(digestOf("a", "b"), digestOf("ab"))
  })

  it("is the same whenever a wait was over, but not for what it was over", () => {
    const waited = (content: string) =>
      of({
        system: "",
        tools: [],
        toolChoice: "auto",
        messages: [
          { role: "tool", parts: [{ type: "tool_result", task_id: TaskId.make(one), state: "completed", content }] }
        ]
      }).messages
    const end = (because: string, at: string) => waited(JSON.stringify({ because, at }))
    const known = end("timer", "2026-01-02T03:04:05.678Z")
    assert.strictEqual(end("timer", "2027-01-02T03:04:05.679Z"), known)
    assert.notStrictEqual(end("text", "2026-01-02T03:04:05.678Z"), known)
    // A tool of anybody else may say times, too: those are on record.
    assert.notStrictEqual(waited('{"at":"2026-01-02T03:04:05.678Z"}'), waited('{"at":"2027-01-02T03:04:05.678Z"}'))
  })

  it("may be longer, as an earlier version has kept it", () => {
    const prompt = { system: "abcdef", tools: "ghijkl", messages: "mnopqr", rest: "stuvwx" }
    const longer = { system: "abcdefghijklmnop", tools: "ghijkl", messages: "mnopqrstuvwxyz01", rest: "stuvwx" }
    assert.isTrue(isSame(longer, prompt) && isSame(prompt, longer))
    assert.isFalse(isSame({ ...longer, tools: "ghijkL" }, prompt))
  })
})
