import { assert, describe, it } from "@effect/vitest"
import { reasonOf } from "../../src/cli/Ended.ts"

describe("the reason of a failure", () => {
  it("is the one at the root, in one line", () => {
    const root = new Error("connect ECONNREFUSED\n  127.0.0.1:1")
    const wrapped = { message: "outer", cause: new Error("inner", { cause: root }) }
    assert.strictEqual(reasonOf(wrapped), "connect ECONNREFUSED 127.0.0.1:1")
    assert.strictEqual(reasonOf(new Error("x", { cause: new AggregateError([root, "two"]) })), `${reasonOf(root)}, two`)
  })

  it("is text, whatever was thrown", () => {
    assert.strictEqual(reasonOf({ message: "told" }), "told")
    assert.strictEqual(reasonOf("told"), "told")
    for (const thrown of [{ errno: 51 }, { message: {} }, null]) {
      assert.strictEqual(reasonOf(thrown), "an error without a message")
    }
  })

  it("does not show the user and the password of a URL", () => {
    assert.strictEqual(reasonOf(new Error("no postgres://me:p@ss@host/db there")), "no postgres://host/db there")
  })
})
