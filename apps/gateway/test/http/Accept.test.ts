import { assert, describe, it } from "@effect/vitest"
import { prefersJson } from "../../src/http/Accept.ts"

describe("prefersJson", () => {
  it.each([
    [undefined, false],
    ["", false],
    ["*/*", false],
    ["text/html", false],
    ["text/event-stream", false],
    ["application/json", true],
    ["Application/JSON; charset=utf-8", true],
    ["application/*", true],
    ["application/json, text/plain, */*", true],
    ["text/event-stream, application/json", false],
    ["application/json, text/event-stream", true],
    ["application/json;q=0.5, text/event-stream", false],
    ["text/event-stream;q=0.5, application/json", true],
    ["application/json;q=0, */*", false],
    ["application/json;version=1;q=0.9, text/event-stream;q=0.8", true],
    ["text/event-stream, */*;q=0.1", false]
  ])("wants one object for %j: %s", (accept, expected) => {
    assert.strictEqual(prefersJson(accept), expected)
  })
})
