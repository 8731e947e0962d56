import { classify } from "@bowline/runtime/unstable/provider/Classification"
import * as FailureBody from "@bowline/runtime/unstable/provider/FailureBody"
import type { ProviderPart } from "@bowline/runtime/provider/Provider"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { readFileSync, readdirSync } from "node:fs"
import { ResponsesStream } from "../../src/provider/internal/ResponsesStream.ts"

const golden = `${import.meta.dirname}/golden/responses`

/** What an answer gives that ends well, in writes of these bytes. */
const decode = (...writes: ReadonlyArray<Uint8Array | string>) => {
  const stream = new ResponsesStream((error) => classify({ status: 200, headers: {} }, FailureBody.fromJson(error), 0))
  const parts = writes.flatMap((bytes) => stream.feed([typeof bytes === "string" ? Buffer.from(bytes) : bytes]))
  parts.push(...(stream.failure === undefined ? stream.end() : []))
  return { parts, failure: stream.failure?._tag ?? null }
}

const events = (...sent: ReadonlyArray<unknown>) => sent.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("")
const event = (type: string, fields?: object) => ({ type: `response.${type}`, ...fields })
const added = (type: string, id: string, fields?: object) =>
  event("output_item.added", { item: { type, id, ...fields } })
const done = (type: string, id: string, fields?: object) => event("output_item.done", { item: { type, id, ...fields } })
const delta = (kind: string, id: string, written: unknown) => event(`${kind}.delta`, { item_id: id, delta: written })
const says = (id: string, written: unknown) => delta("output_text", id, written)
const message = added("message", "m")
const completed = event("completed", { response: { status: "completed" } })

const callsOf = (...sent: ReadonlyArray<unknown>) =>
  decode(events(...sent)).parts.flatMap((part) =>
    part._tag === "ToolCall" ? [[part.id, part.name, part.arguments]] : []
  )

const Cut = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))

const text = (part: string): ProviderPart => ({ _tag: "TextDelta", delta: part })
const finished = (reason: "stop" | "tool_calls" | "length" | "other"): ProviderPart => ({
  _tag: "Finished",
  reason,
  inferred: false
})

describe("ResponsesStream", () => {
  for (const name of readdirSync(golden).flatMap((file) => (file.endsWith(".sse") ? [file.slice(0, -4)] : []))) {
    const bytes = readFileSync(`${golden}/${name}.sse`)
    const expected: unknown = JSON.parse(readFileSync(`${golden}/${name}.parts.json`, "utf8"))

    it.prop(`reads ${name}, however it is cut into writes`, { cuts: Schema.Array(Cut) }, ({ cuts }) => {
      const at = [0, ...cuts.map((cut) => Math.floor(cut * bytes.length)).toSorted((a, b) => a - b), bytes.length]
      const writes = at.slice(1).map((end, index) => bytes.subarray(at[index], end))
      assert.deepStrictEqual<unknown>(decode(...writes), expected)
    })
  }

  it.each([
    ["a delta before its item", [says("x", "two")]],
    ["a delta behind its item", [done("message", "m"), says("m", "two")]],
    ["a delta of an item of another type", [delta("reasoning_summary_text", "m", "two")]],
    ["a delta of a call that is none", [delta("function_call_arguments", "m", "{}")]],
    ["a delta without an item", [event("output_text.delta", { delta: "two" })]],
    ["a delta that is no text", [says("m", 5)]],
    ["a delta that is missing", [says("m", undefined)]],
    ["a second start of an item", [message]],
    ["a start of an item that is over", [done("message", "m"), message]],
    ["a start of nothing", [event("output_item.added")]],
    ["an end of nothing", [event("output_item.done")]],
    ["an end of an item that was not begun", [done("message", "x")]],
    ["a second end of an item", [done("message", "m"), done("message", "m")]],
    ["an end of an item of another type", [done("function_call", "m")]],
    [
      "arguments of a call that was not begun",
      [event("function_call_arguments.done", { item_id: "x", arguments: "{}" })]
    ],
    ["JSON that is no object", [5]]
  ])("fails on %s, and emits nothing of what comes after it", (_, sent) => {
    const { parts, failure } = decode(
      events(message, says("m", "one")),
      events(...sent, added("message", "n"), says("n", "three"), completed)
    )
    assert.deepStrictEqual([parts, failure], [[text("one")], "stream_corrupt"])
  })

  it("fails on arguments that are longer than any should be, before their end", () => {
    const piece = events(delta("function_call_arguments", "f", "x".repeat(1_024 * 1_024)))
    const of = (pieces: number) =>
      decode(events(added("function_call", "f", { name: "a" })), ...Array.from({ length: pieces }, () => piece))
    assert.deepStrictEqual([of(8).failure, of(9).failure], ["stream_truncated", "stream_corrupt"])
  })

  it("believes no end marker, and no end of the stream", () => {
    const one = events(message, says("m", "one"), done("message", "m"))
    for (const end of ["", "data: [DONE]\n\n", events(event("in_progress", { response: { status: "completed" } }))]) {
      assert.deepStrictEqual(decode(one, end), { parts: [text("one")], failure: "stream_truncated" })
    }
  })

  it("believes what was finished, whatever comes after it", () => {
    const one = events(message, says("m", "one"), completed)
    const failed = event("failed", { response: { error: { code: "server_error", message: "boom" } } })
    for (const behind of ["data: {\n\n", "data: [DONE]\n\n", events(failed), events(says("x", "two"), completed)]) {
      assert.deepStrictEqual(decode(one, behind), { parts: [text("one"), finished("stop")], failure: null })
    }
  })

  it("ignores events and items that it does not know", () => {
    const { parts } = decode(
      ": comment\n\nevent: keepalive\ndata: {}\n\n",
      events(event("queued"), added("web_search_call", "w"), event("web_search_call.searching", { item_id: "w" })),
      events(done("web_search_call", "w"), message, says("m", ""), says("m", "one"), completed)
    )
    assert.deepStrictEqual(parts, [text("one"), finished("stop")])
  })

  it("uses the name of an event as its type, where its data have none", () => {
    const { parts } = decode(events(message, says("m", "one")), 'event: response.completed\ndata: {"response":{}}\n\n')
    assert.deepStrictEqual(parts, [text("one"), finished("stop")])
  })

  it.each([
    ["rate_limited", { type: "error", code: "rate_limit_exceeded", message: "Slow down", param: null }],
    ["billing", { type: "error", error: { type: "insufficient_quota", code: "insufficient_quota", message: "x" } }],
    ["context_overflow", { type: "error", code: "context_length_exceeded", message: "x" }],
    ["server_error", { error: { message: "x", type: "server_error", code: null } }],
    ["server_error", event("failed", { response: { status: "failed", error: null } })],
    ["server_error", event("failed")],
    ["server_error", event("failed", { response: { error: { code: "server_error", message: "x" } } })],
    ["context_overflow", event("failed", { response: { error: { code: "context_length_exceeded", message: "x" } } })],
    ["bad_request", event("failed", { response: { error: { code: "invalid_prompt", message: "x" } } })],
    ["overloaded", event("failed", { response: { error: { code: "server_is_overloaded", message: "x" } } })],
    ["overloaded", event("failed", { response: { error: { code: "slow_down", message: "x" } } })]
  ] as const)("fails as %s on %j", (reason, sent) => {
    assert.deepStrictEqual(decode(events(message, says("m", "one"), sent)), {
      parts: [text("one")],
      failure: reason
    })
  })

  it("puts calls together by their items, and believes their ends more than their pieces", () => {
    const call = { name: "a", arguments: "" }
    const write = (id: string, piece: string) => delta("function_call_arguments", id, piece)
    assert.deepStrictEqual(
      callsOf(
        added("function_call", "1", { ...call, call_id: "c1" }),
        added("function_call", "2", { ...call, call_id: "c2" }),
        write("2", "{"),
        write("1", '{"a":'),
        write("2", "}"),
        write("1", "1}"),
        done("function_call", "1", { ...call, call_id: "c1" }),
        event("function_call_arguments.done", { item_id: "2", arguments: '{"b":2}' }),
        added("function_call", "3", { call_id: "", arguments: "" }),
        done("function_call", "3", { call_id: "c3", name: "late", arguments: "{}" }),
        completed
      ),
      [
        ["c1", "a", '{"a":1}'],
        ["c2", "a", '{"b":2}'],
        ["c3", "late", "{}"]
      ]
    )
  })

  it("invents ids that are missing or taken, and drops a call without a name", () => {
    const call = (item: string, fields: object) => added("function_call", item, { arguments: "{}", ...fields })
    assert.deepStrictEqual(
      callsOf(
        call("1", { name: "a", call_id: "c" }),
        call("2", { name: "b", call_id: "c" }),
        call("3", { name: "d" }),
        call("4", { call_id: "e" }),
        completed
      ).map(([id, name]) => [id, name]),
      [
        ["c", "a"],
        ["call_1", "b"],
        ["call_2", "d"]
      ]
    )
  })

  it("says that a call without a name was dropped, and that nothing else was called", () => {
    const { parts } = decode(events(added("function_call", "1", { call_id: "c", arguments: "{}" }), completed))
    assert.deepStrictEqual<unknown>(parts.slice(-2), [
      { _tag: "CallDropped", reason: "it had no name" },
      finished("stop")
    ])
  })

  it("emits no call that was cut, also when the answer ended for another reason than its length", () => {
    const call = { call_id: "c", name: "a", arguments: "{" }
    const cut = event("incomplete", { response: { incomplete_details: { reason: "steered" } } })
    const begun = added("function_call", "1", call)
    const fragment: ProviderPart = { _tag: "ToolCallFragment", call: 0 }
    for (const ends of [[], [done("function_call", "1", { ...call, status: "incomplete" })]]) {
      assert.deepStrictEqual(decode(events(begun, ...ends, cut)).parts, [fragment, finished("other")])
    }
  })

  it("marks the texts that are commentary on the way to the answer", () => {
    const sent = [
      added("message", "m", { phase: "commentary" }),
      says("m", "I look."),
      done("message", "m", { phase: "commentary" }),
      added("message", "n"),
      says("n", "A knot."),
      done("message", "n"),
      completed
    ]
    assert.deepStrictEqual(decode(events(...sent)).parts, [
      text("I look."),
      { _tag: "TextEnded", phase: "commentary" },
      text("A knot."),
      finished("stop")
    ])
  })

  it("signs no reasoning that was cut, or that the provider will not know again", () => {
    const signed = { encrypted_content: "gAAA" }
    const reasoning = added("reasoning", "r", signed)
    const signaturesOf = (end: object) =>
      decode(events(reasoning, end, completed)).parts.filter(({ _tag }) => _tag === "ReasoningEnded")
    assert.lengthOf(signaturesOf(done("reasoning", "r", signed)), 1)
    assert.lengthOf(signaturesOf(done("reasoning", "r", { ...signed, status: "incomplete" })), 0)
    assert.lengthOf(signaturesOf(done("reasoning", "r", { encrypted_content: null })), 0)
  })
})
