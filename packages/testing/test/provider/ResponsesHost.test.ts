import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import * as MemoryNetwork from "../../src/http/MemoryNetwork.ts"
import { Network } from "../../src/http/Network.ts"
import * as ResponsesHost from "../../src/provider/ResponsesHost.ts"
import type { Script } from "../../src/provider/Script.ts"
import * as Turn from "../../src/provider/Turn.ts"

const question = { type: "message", role: "user", content: [{ type: "input_text", text: "What now?" }] }
const call = { type: "function_call", call_id: "c", name: "a", arguments: "{}" }
const output = { type: "function_call_output", call_id: "c", output: "" }

const play = Effect.fnUntraced(function* (script: Script) {
  const network = yield* Network
  const host = yield* network.serve(yield* ResponsesHost.make(script))
  return (input: ReadonlyArray<object>) =>
    HttpClient.execute(
      HttpClientRequest.bodyText(
        HttpClientRequest.post(`${host.url}/v1/responses`),
        JSON.stringify({ model: "m", stream: true, store: false, input })
      )
    )
})

describe("ResponsesHost", () => {
  it.effect("writes each item from its start to its end, one after the other, and the usage with the finish", () =>
    Effect.gen(function* () {
      const ask = yield* play([
        [Turn.think("hm"), Turn.say("one"), Turn.say("two"), Turn.callTool("a", {}), Turn.usage({ input_tokens: 7 })]
      ])
      const answer = yield* Stream.mkString(Stream.decodeText((yield* ask([question])).stream))
      const events = answer.split("\n\n").map((event) => event.split("\n")[0]?.replace(/event: response\./, ""))
      assert.deepStrictEqual(events, [
        "created",
        "output_item.added",
        "reasoning_summary_text.delta",
        "output_item.done",
        "output_item.added",
        "output_text.delta",
        "output_text.delta",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "output_item.done",
        "completed",
        ""
      ])
      assert.match(answer, /"arguments":"{}".*\n\n.*\n.*"input_tokens":7/)
    }).pipe(Effect.scoped, Effect.provide(MemoryNetwork.layer))
  )

  it.effect.each([
    ["a call without its result", [question, call], /No tool output found for function call c/],
    ["a result without its call", [question, output], /No tool call found for function call output with call_id c/],
    ["an item that it would have to look up", [question, { ...call, id: "fc_1" }, output], /id/],
    [
      "a file without its name",
      [{ ...question, content: [{ type: "input_file", file_data: "data:application/pdf;base64,AAAA" }] }],
      /filename/
    ],
    ["nothing", [], /input/]
  ] as const)("refuses %s", ([, input, problem]) =>
    Effect.gen(function* () {
      const ask = yield* play([[Turn.say("one")]])
      const refused = yield* ask(input)
      assert.strictEqual(refused.status, 400)
      assert.match(yield* refused.text, problem)
      assert.strictEqual((yield* ask([question, call, output])).status, 200)
    }).pipe(Effect.scoped, Effect.provide(MemoryNetwork.layer))
  )
})
