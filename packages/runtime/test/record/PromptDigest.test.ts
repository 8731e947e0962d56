import { assert, describe, it } from "@effect/vitest"
import { digestOf, isSame } from "../../src/record/PromptDigest.ts"

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

  it("may be longer, as an earlier version has kept it", () => {
    const prompt = { system: "abcdef", tools: "ghijkl", messages: "mnopqr", rest: "stuvwx" }
    const longer = { system: "abcdefghijklmnop", tools: "ghijkl", messages: "mnopqrstuvwxyz01", rest: "stuvwx" }
    assert.isTrue(isSame(longer, prompt) && isSame(prompt, longer))
    assert.isFalse(isSame({ ...longer, tools: "ghijkL" }, prompt))
  })
})
