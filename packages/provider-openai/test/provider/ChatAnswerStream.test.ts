import { Unknown } from "@bowline/domain/provider/ProviderError"
import type { ProviderPart } from "@bowline/runtime/provider/Provider"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { readFileSync, readdirSync } from "node:fs"
import { ChatAnswerStream } from "../../src/provider/internal/ChatAnswerStream.ts"

const golden = `${import.meta.dirname}/golden`

/** What an answer gives that ends well, in writes of these bytes. */
const decode = (...writes: ReadonlyArray<Uint8Array | string>) => {
  const stream = new ChatAnswerStream((error) => new Unknown({ message: JSON.stringify(error) }))
  const parts = writes.flatMap((bytes) => stream.feed([typeof bytes === "string" ? Buffer.from(bytes) : bytes]))
  parts.push(...(stream.failure === undefined ? stream.end() : []))
  return { parts, failure: stream.failure?._tag ?? null }
}

const events = (...chunks: ReadonlyArray<unknown>) =>
  chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")
const delta = (fields: object, finish: string | null = null) => ({
  choices: [{ index: 0, delta: fields, finish_reason: finish }]
})
const megabyte = "x".repeat(1_024 * 1_024)

const calls = (...fragments: ReadonlyArray<object>) => delta({ tool_calls: fragments })
const fragment = (index: number | undefined, args: string, name?: string, id?: string) => ({
  index,
  id,
  function: { name, arguments: args }
})

const callsOf = (...chunks: ReadonlyArray<unknown>) =>
  decode(events(...chunks, delta({}, "tool_calls"))).parts.flatMap((part) =>
    part._tag === "ToolCall" ? [[part.id, part.name, part.arguments]] : []
  )

const Cut = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))

const text = (part: string): ProviderPart => ({ _tag: "TextDelta", delta: part })
const stopped: ProviderPart = { _tag: "Finished", reason: "stop", inferred: false }

describe("ChatStream", () => {
  for (const name of readdirSync(golden).flatMap((file) => (file.endsWith(".sse") ? [file.slice(0, -4)] : []))) {
    const bytes = readFileSync(`${golden}/${name}.sse`)
    const expected: unknown = JSON.parse(readFileSync(`${golden}/${name}.parts.json`, "utf8"))

    it.prop(`reads what ${name} sends, however it is cut into writes`, { cuts: Schema.Array(Cut) }, ({ cuts }) => {
      const at = [0, ...cuts.map((cut) => Math.floor(cut * bytes.length)).toSorted((a, b) => a - b), bytes.length]
      const writes = at.slice(1).map((end, index) => bytes.subarray(at[index], end))
      assert.deepStrictEqual<unknown>(decode(...writes), expected)
    })
  }

  it.each(["\n", "\r\n", "\r"])("reads lines that end in %j", (end) => {
    const lines = [
      ": comment",
      "id: 1",
      'data:{"choices":[{"delta":',
      'data: {"content":"one"},"finish_reason":"stop"}]}',
      "",
      "data:[DONE]",
      "",
      ""
    ]
    assert.deepStrictEqual(decode(lines.join(end)).parts, [text("one"), stopped])
  })

  it("reads an event only when its end has come", () => {
    const { parts, failure } = decode(
      events(delta({ content: "one" })),
      'data: {"choices":[{"finish_reason":"stop"}]}\n'
    )
    assert.deepStrictEqual([parts, failure], [[text("one")], "stream_truncated"])
  })

  it("ignores empty events, empty choices and chunks that say nothing", () => {
    const { parts } = decode(
      "data:\n\nevent: ping\n\n",
      events({ choices: [] }, {}, { choices: [{ index: 0 }] }, delta({ role: "assistant", content: "" })),
      events(delta({ content: null, tool_calls: null }), { choices: null }, delta({ content: "one" }, "stop"))
    )
    assert.deepStrictEqual(parts, [text("one"), stopped])
  })

  it.each([
    ["what is not JSON", "data: {\n\n"],
    ["JSON that is no object", "data: 5\n\n"],
    ["text that is none", events(delta({ content: 5 }))],
    ["calls that are no list", events(delta({ tool_calls: {} }))],
    ["a call that is no object", events(delta({ tool_calls: [5] }))],
    ["choices that are no list", events({ choices: {} })]
  ])("fails on %s, and emits nothing of what comes after it", (_, corrupt) => {
    const { parts, failure } = decode(
      events(delta({ content: "one" })),
      corrupt + events(delta({ content: "two" }, "stop"))
    )
    assert.deepStrictEqual([parts, failure], [[text("one")], "stream_corrupt"])
  })

  it("fails on an event that is larger than any should be, before its end", () => {
    const { failure } = decode("data: ", ...Array.from({ length: 9 }, () => megabyte))
    assert.strictEqual(failure, "stream_corrupt")
  })

  it.each([
    ["text", delta({ content: megabyte })],
    ["thoughts", delta({ reasoning: megabyte })],
    ["arguments", calls({ index: 0, function: { name: "a", arguments: megabyte } })]
  ])("fails on an answer with more %s than any should have, before its end", (_, piece) => {
    const { failure } = decode(...Array.from({ length: 9 }, () => events(piece)))
    assert.strictEqual(failure, "stream_corrupt")
    assert.strictEqual(decode(...Array.from({ length: 8 }, () => events(piece))).failure, "stream_truncated")
  })

  it.each([
    ["under its name", "event: error\n" + events({ message: "boom" })],
    ["in a chunk that says that it is finished, too", events({ error: { message: "boom" }, ...delta({}, "error") })]
  ])("fails on an error %s", (_, sent) => {
    assert.strictEqual(decode(events(delta({ content: "one" })), sent).failure, "unknown")
  })

  it("believes what was finished, whatever comes after it", () => {
    const one = events(delta({ content: "one" }, "stop"))
    for (const behind of ["data: {\n\n", events({ error: { message: "boom" } }), events(delta({}, "length"))]) {
      assert.deepStrictEqual(decode(one, behind), { parts: [text("one"), stopped], failure: null })
    }
  })

  it("puts calls together by index, with name and id from any fragment", () => {
    assert.deepStrictEqual(
      callsOf(
        calls(fragment(0, "", "a", "1"), fragment(1, "{", "b", "2")),
        calls(fragment(1, "}")),
        calls(fragment(0, "{", "a", "1")),
        calls(fragment(0, "}", "a", "1"))
      ),
      [
        ["1", "a", "{}"],
        ["2", "b", "{}"]
      ]
    )
  })

  it("reads another id as another call, where the server does not number its calls", () => {
    const expected = [
      ["1", "a", "{}"],
      ["2", "a", "{}"]
    ]
    assert.deepStrictEqual(callsOf(calls(fragment(0, "{}", "a", "1"), fragment(0, "{}", "a", "2"))), expected)
    assert.deepStrictEqual(
      callsOf(
        calls(fragment(undefined, "{", "a", "1")),
        calls(fragment(undefined, "}")),
        calls(fragment(undefined, "{}", "a", "2"))
      ),
      expected
    )
  })

  it("invents ids that are missing or taken, and merges two equal calls", () => {
    assert.deepStrictEqual(
      callsOf(
        calls(fragment(0, "1", "a", "call_0"), fragment(1, "2", "b"), fragment(2, "3", "a", "call_0")),
        calls(fragment(3, "1", "a", "call_0"))
      ),
      [
        ["call_0", "a", "1"],
        ["call_1", "b", "2"],
        ["call_2", "a", "3"]
      ]
    )
  })

  it("drops a call without a name, and accepts arguments that are an object", () => {
    assert.deepStrictEqual(
      callsOf(
        calls(fragment(0, "{}", undefined, "1")),
        calls({ index: 1, id: "2", function: { name: "a", arguments: { b: 1 } } })
      ),
      [["2", "a", '{"b":1}']]
    )
  })

  it("says that a call without a name was dropped, directly before the finish", () => {
    const { parts } = decode(events(calls(fragment(0, "{}", undefined, "1")), delta({}, "tool_calls"), "[DONE]"))
    assert.deepStrictEqual<unknown>(parts.slice(-2), [
      { _tag: "CallDropped", reason: "it had no name" },
      { _tag: "Finished", reason: "tool_calls", inferred: false }
    ])
  })

  it("counts invalid numbers of tokens as 0", () => {
    const { parts } = decode(
      events({ usage: { prompt_tokens: -1, completion_tokens: "7" } }, delta({ content: "x" }, "stop"))
    )
    assert.deepStrictEqual(parts[0], {
      _tag: "UsageReported",
      usage: { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0, reasoning_tokens: 0 }
    })
  })
})
