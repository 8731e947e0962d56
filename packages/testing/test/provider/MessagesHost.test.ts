import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import * as MemoryNetwork from "../../src/http/MemoryNetwork.ts"
import { Network } from "../../src/http/Network.ts"
import * as MessagesHost from "../../src/provider/MessagesHost.ts"
import * as Turn from "../../src/provider/Turn.ts"

const version = { "anthropic-version": "2023-06-01" }

const ask = Effect.fnUntraced(function* (turn: Turn.Turn, fields: object, headers: Record<string, string> = version) {
  const network = yield* Network
  const host = yield* network.serve(yield* MessagesHost.make([turn]))
  const body = { model: "m", max_tokens: 1, stream: true, messages: [user("What now?")], ...fields }
  const response = yield* HttpClient.execute(
    HttpClientRequest.bodyText(
      HttpClientRequest.post(`${host.url}/v1/messages`, { headers }),
      JSON.stringify(body),
      "application/json"
    )
  )
  return { status: response.status, text: yield* response.text }
})

const block = (type: string, fields: object) => ({ type, ...fields })
const text = (words: string) => block("text", { text: words })
const user = (words: string) => ({ role: "user", content: [text(words)] })
const assistant = (...content: ReadonlyArray<object>) => ({ role: "assistant", content })
const call = (id: string) => block("tool_use", { id, name: "weather", input: {} })
const result = (id: string) => block("tool_result", { tool_use_id: id, content: "Sunny" })

const blockOf = (deltas: number) => [
  "content_block_start",
  ...Array.from({ length: deltas }, () => "content_block_delta"),
  "content_block_stop"
]

describe("MessagesHost", () => {
  it.effect("begins and ends each block of an answer, in order", () =>
    Effect.gen(function* () {
      const turn = [Turn.think("hm"), Turn.say("one"), Turn.say("two"), Turn.callTool("weather", {}, { id: "a" })]
      const { text } = yield* ask(turn, {})
      assert.deepStrictEqual(
        text.split("\n").flatMap((line) => (line.startsWith("event: ") ? [line.slice(7)] : [])),
        ["message_start", ...blockOf(1), ...blockOf(2), ...blockOf(3), "message_delta", "message_stop"]
      )
    }).pipe(Effect.scoped, Effect.provide(MemoryNetwork.layer))
  )

  it.effect.each([
    ["an answer first", [assistant(text("Hi")), user("What now?")], 'first message must use the "user" role'],
    ["two questions in a row", [user("What?"), user("What now?")], "roles must alternate"],
    ["a call without its result", [user("What?"), assistant(call("a")), user("Well?")], "without `tool_result`"],
    ["a call at the end", [user("What?"), assistant(call("a"))], "without `tool_result`"],
    [
      "a result behind other content",
      [user("What?"), assistant(call("a")), { role: "user", content: [text("Well?"), result("a")] }],
      "without `tool_result`"
    ],
    ["a result without its call", [{ role: "user", content: [result("a")] }], "unexpected `tool_use_id`"],
    [
      "an answer that ends in a thought",
      [user("What?"), assistant(block("thinking", { thinking: "hm", signature: "s" })), user("Well?")],
      "cannot be `thinking`"
    ],
    [
      "an image of a kind that it cannot see",
      [
        {
          role: "user",
          content: [block("image", { source: { type: "base64", media_type: "image/tiff", data: "AAAA" } })]
        }
      ],
      "media_type"
    ],
    ["an answer at the end", [user("What?"), assistant(text("Well, "))], "must end with a user message"],
    ["a blank text", [user(" \n")], "text"],
    ["a thought of the user", [{ role: "user", content: [block("redacted_thinking", { data: "x" })] }], "content"]
  ] as const)("refuses %s, in the server's words", ([, messages, words]) =>
    Effect.gen(function* () {
      const { status, text } = yield* ask([Turn.say("ok")], { messages })
      assert.strictEqual(status, 400)
      const { error } = JSON.parse(text) as { error: { message: string } }
      assert.include(error.message, words)
    }).pipe(Effect.scoped, Effect.provide(MemoryNetwork.layer))
  )

  it.effect("refuses what is not the format's: no version, no limit, a field that it does not know", () =>
    Effect.gen(function* () {
      const ok = [Turn.say("ok")]
      assert.include((yield* ask(ok, {}, {})).text, "anthropic-version: header is required")
      assert.include((yield* ask(ok, { max_tokens: undefined })).text, "max_tokens")
      assert.include((yield* ask(ok, { temperatur: 1 })).text, "temperatur")
      assert.strictEqual((yield* ask(ok, {})).status, 200)
    }).pipe(Effect.scoped, Effect.provide(MemoryNetwork.layer))
  )
})
