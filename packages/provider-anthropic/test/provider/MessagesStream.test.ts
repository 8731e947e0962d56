import { Unknown } from "@bowline/domain/provider/ProviderError"
import type { ProviderPart } from "@bowline/runtime/provider/Provider"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { readFileSync, readdirSync } from "node:fs"
import { MessagesStream } from "../../src/provider/internal/MessagesStream.ts"

const golden = `${import.meta.dirname}/golden`

/** What an answer gives that ends well, in writes of these bytes. */
const decode = (...writes: ReadonlyArray<Uint8Array | string>) => {
  const stream = new MessagesStream((error) => new Unknown({ message: JSON.stringify(error) }))
  const parts = writes.flatMap((bytes) => stream.feed([typeof bytes === "string" ? Buffer.from(bytes) : bytes]))
  parts.push(...(stream.failure === undefined ? stream.end() : []))
  return { parts, failure: stream.failure?._tag ?? null }
}

const events = (...chunks: ReadonlyArray<object>) =>
  chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")

const message = { type: "message_start", message: {} }
const start = (index: unknown, content_block: unknown) => ({ type: "content_block_start", index, content_block })
const delta = (index: unknown, fields: unknown) => ({ type: "content_block_delta", index, delta: fields })
const stop = (index: unknown) => ({ type: "content_block_stop", index })
const ends = (stop_reason: string | null, usage?: object) => ({ type: "message_delta", delta: { stop_reason }, usage })
const over = { type: "message_stop" }

const text = (index: number, ...words: ReadonlyArray<string>) => [
  start(index, { type: "text", text: "" }),
  ...words.map((word) => delta(index, { type: "text_delta", text: word }))
]
const call = (index: number, fields: object, ...pieces: ReadonlyArray<string>) => [
  start(index, { type: "tool_use", input: {}, ...fields }),
  ...pieces.map((piece) => delta(index, { type: "input_json_delta", partial_json: piece })),
  stop(index)
]

const said = (word: string): ProviderPart => ({ _tag: "TextDelta", delta: word })
const finished = (reason: string, inferred = false) => ({ _tag: "Finished", reason, inferred })

const Cut = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))

describe("MessagesStream", () => {
  for (const name of readdirSync(golden).flatMap((file) => (file.endsWith(".sse") ? [file.slice(0, -4)] : []))) {
    const bytes = readFileSync(`${golden}/${name}.sse`)
    const expected: unknown = JSON.parse(readFileSync(`${golden}/${name}.parts.json`, "utf8"))

    it.prop(`reads what ${name} sends, however it is cut into writes`, { cuts: Schema.Array(Cut) }, ({ cuts }) => {
      const at = [0, ...cuts.map((cut) => Math.floor(cut * bytes.length)).toSorted((a, b) => a - b), bytes.length]
      const writes = at.slice(1).map((end, index) => bytes.subarray(at[index], end))
      assert.deepStrictEqual<unknown>(decode(...writes), expected)
    })
  }

  it.each([
    ["end_turn", "stop"],
    ["stop_sequence", "stop"],
    ["tool_use", "tool_calls"],
    ["max_tokens", "length"],
    ["model_context_window_exceeded", "length"],
    ["refusal", "refusal"],
    ["pause_turn", "pause"],
    ["something_new", "other"]
  ])("reads the stop reason %s as %s", (reason, expected) => {
    const { parts } = decode(events(message, ends(reason), over))
    assert.deepStrictEqual<unknown>(parts, [finished(expected)])
  })

  it("is finished by a stop reason or by the end of the message, and by nothing else", () => {
    const open = [message, ...text(0, "one"), stop(0)]
    const whole = [said("one"), finished("stop")]
    assert.deepStrictEqual<unknown>(decode(events(...open, ends("end_turn"))), { parts: whole, failure: null })
    assert.deepStrictEqual<unknown>(decode(events(...open, over)).parts, [said("one"), finished("stop", true)])
    for (const cut of [events(...open), events(...open, ends(null)), events(message, over), ""]) {
      const { parts, failure } = decode(cut)
      assert.strictEqual(failure, "stream_truncated")
      assert.isFalse(parts.some(({ _tag }) => _tag === "Finished"))
    }
  })

  it("believes what was finished, whatever comes after it", () => {
    const one = events(message, ...text(0, "one"), stop(0), ends("end_turn"))
    const expected = { parts: [said("one"), finished("stop")], failure: null }
    for (const behind of [
      "data: {\n\n",
      events({ type: "error", error: {} }),
      events(stop(7)),
      events(ends("refusal"))
    ]) {
      assert.deepStrictEqual<unknown>(decode(one, behind), expected)
    }
  })

  it.each([
    ["a delta before its start", [delta(1, { type: "text_delta", text: "two" })]],
    ["a delta behind the end of its block", [stop(0), delta(0, { type: "text_delta", text: "two" })]],
    ["a second start of a block", [stop(0), ...text(0, "two")]],
    ["a second start of the message", [message]],
    ["the end of a block that was not started", [stop(1)]],
    ["a block without an index", [start(undefined, { type: "text", text: "two" })]],
    ["a block that is no object", [start(1, "two")]],
    ["a delta that is no object", [delta(0, "two")]],
    ["a delta in a block of another kind", [delta(0, { type: "input_json_delta", partial_json: "{}" })]],
    ["a text that is none", [delta(0, { type: "text_delta", text: 2 })]],
    ["a finish in the midst of a call", [start(1, { type: "tool_use", id: "a", name: "a" }), ends("tool_use")]]
  ])("fails on %s, and emits nothing of what comes after it", (_, wrong) => {
    const { parts, failure } = decode(
      events(message, ...text(0, "one"), ...wrong) +
        events(delta(0, { type: "text_delta", text: "three" }), ends("end_turn"))
    )
    assert.deepStrictEqual(
      [parts.filter(({ _tag }) => _tag !== "ToolCallFragment"), failure],
      [[said("one")], "stream_corrupt"]
    )
  })

  it.each([
    ["a block", start(0, { type: "text", text: "one" })],
    ["a stop reason", ends("end_turn")],
    ["what is no object", 5 as never]
  ])("fails on %s before the start of the message", (_, first) => {
    assert.deepStrictEqual(decode(events(first)), { parts: [], failure: "stream_corrupt" })
  })

  it.each([
    ["as an event", 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n'],
    ["as an event without a type", 'event: error\ndata: {"message":"boom"}\n\n'],
    ["without an event", 'data: {"error":{"message":"boom"}}\n\n']
  ])("fails on an error %s, first or after deltas", (_, sent) => {
    assert.deepStrictEqual(decode(sent), { parts: [], failure: "unknown" })
    const { parts, failure } = decode(events(message, ...text(0, "one", "two")), sent)
    assert.deepStrictEqual([parts, failure], [[said("one"), said("two")], "unknown"])
  })

  it("uses the name of the event as its type, where the data have none", () => {
    const { parts } = decode(
      "event: message_start\ndata: {}\n\n" +
        'event: message_delta\ndata: {"delta":{"stop_reason":"end_turn"}}\n\n' +
        "event: message_stop\ndata: {}\n\n"
    )
    assert.deepStrictEqual<unknown>(parts, [finished("stop")])
  })

  it("signs a thought when it has ended, and only if it was signed", () => {
    const thought = (index: number, signature?: string) => [
      start(index, { type: "thinking", thinking: "" }),
      delta(index, { type: "thinking_delta", thinking: "hm" }),
      ...(signature === undefined ? [] : [delta(index, { type: "signature_delta", signature })]),
      stop(index)
    ]
    const { parts } = decode(events(message, ...thought(0, "EqQB"), ...thought(1)))
    assert.deepStrictEqual(parts, [
      { _tag: "ReasoningDelta", delta: "hm" },
      { _tag: "ReasoningEnded", signature: "EqQB" },
      { _tag: "ReasoningDelta", delta: "hm" }
    ])
  })

  it("puts calls together by block, though their deltas come mixed", () => {
    const [startA = {}, a1 = {}, stopA = {}] = call(0, { id: "a", name: "x" }, '{"a":')
    const [startB = {}, b1 = {}, stopB = {}] = call(1, { id: "b", name: "y" }, "{}")
    const a2 = delta(0, { type: "input_json_delta", partial_json: "1}" })
    const { parts } = decode(events(message, startA, startB, a1, b1, a2, stopB, stopA, ends("tool_use"), over))
    assert.deepStrictEqual<unknown>(parts.slice(-3), [
      { _tag: "ToolCall", call: 0, id: "a", name: "x", arguments: '{"a":1}' },
      { _tag: "ToolCall", call: 1, id: "b", name: "y", arguments: "{}" },
      finished("tool_calls")
    ])
  })

  it("fails on arguments that are longer than any should be, before their end", () => {
    const [begin = {}, piece = {}] = call(0, { id: "a", name: "x" }, "x".repeat(1_024 * 1_024))
    const of = (pieces: number) =>
      decode(events(message, begin), ...Array.from({ length: pieces }, () => events(piece)))
    assert.deepStrictEqual([of(8).failure, of(9).failure], ["stream_truncated", "stream_corrupt"])
  })

  it("invents ids that are missing or taken, merges two equal calls, and drops a call without a name", () => {
    const calls = [
      ...call(0, { id: "a", name: "x" }, "1"),
      ...call(1, { name: "x" }, "2"),
      ...call(2, { id: "a", name: "x" }, "1"),
      ...call(3, { id: "a", name: "x" }, "3"),
      ...call(4, { id: "b" }, "4")
    ]
    const { parts } = decode(events(message, ...calls, ends("tool_use"), over))
    assert.deepStrictEqual<unknown>(parts.at(-2), { _tag: "CallDropped", reason: "it had no name" })
    assert.deepStrictEqual(
      parts.flatMap((part) => (part._tag === "ToolCall" ? [[part.id, part.arguments]] : [])),
      [
        ["a", "1"],
        ["call_1", "2"],
        ["call_2", "3"]
      ]
    )
  })

  it("keeps the count that it knew where tokens are null, none or fewer than before", () => {
    const { parts } = decode(
      events(
        {
          type: "message_start",
          message: { usage: { input_tokens: 9, cache_read_input_tokens: 4, output_tokens: 1 } }
        },
        ends(null, { input_tokens: null, cache_read_input_tokens: 0, output_tokens: "7" }),
        ends("end_turn", { output_tokens: 5 })
      )
    )
    const usage = { input_tokens: 13, output_tokens: 1, cached_input_tokens: 4, reasoning_tokens: 0 }
    assert.deepStrictEqual<unknown>(parts, [
      { _tag: "UsageReported", usage },
      { _tag: "UsageReported", usage },
      { _tag: "UsageReported", usage: { ...usage, output_tokens: 5 } },
      finished("stop")
    ])
  })
})
