import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { MessagePart } from "../../src/session/Message.ts"

const isPart = Schema.is(MessagePart)
const file = { type: "file", media_type: "image/png" }

describe("FilePart", () => {
  it.each([
    ["its content", { ...file, name: "a.png", data: "AAAA" }, true],
    ["its place", { ...file, url: "https://files.test/a.png" }, true],
    ["both", { ...file, data: "AAAA", url: "https://files.test/a.png" }, false],
    ["neither", file, false],
    ["content that is not base64", { ...file, data: "%" }, false],
    ["a place that is not on the web", { ...file, url: "file:///etc/passwd" }, false],
    ["a media type with parameters", { ...file, media_type: "text/plain; charset=utf-8", data: "AAAA" }, false]
  ])("has its content or its place: with %s", (_, part, isOne) => {
    assert.strictEqual(isPart(part), isOne)
  })
})
