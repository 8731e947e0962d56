import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import * as MemoryNetwork from "../../src/http/MemoryNetwork.ts"
import * as Move from "../../src/http/Move.ts"
import { Network } from "../../src/http/Network.ts"
import * as ChatHost from "../../src/provider/ChatHost.ts"
import type { Script } from "../../src/provider/Script.ts"
import * as Turn from "../../src/provider/Turn.ts"

const question = { model: "m", stream: true, messages: [{ role: "user", content: "What now?" }] }

const play = Effect.fnUntraced(function* (script: Script) {
  const network = yield* Network
  const host = yield* network.serve(yield* ChatHost.make(script))
  return (body: unknown) =>
    HttpClient.execute(
      HttpClientRequest.bodyText(HttpClientRequest.post(`${host.url}/v1/chat/completions`), JSON.stringify(body))
    )
})

describe("ChatHost", () => {
  it.effect("writes each move by itself, and all in one write from where it is told to", () =>
    Effect.gen(function* () {
      const ask = yield* play([
        [Turn.say("one"), Turn.say("two")],
        [Turn.say("one"), Turn.oneWrite, Turn.say("two"), Turn.say("three"), Turn.usage({ input_tokens: 1 })]
      ])
      const writes = Effect.map(
        Effect.flatMap(ask(question), ({ stream }) => Stream.runCollect(stream)),
        (chunks) => chunks.map((chunk) => Buffer.from(chunk).toString().split("\n\n").length - 1)
      )
      assert.deepStrictEqual(yield* writes, [1, 1, 1, 1])
      assert.deepStrictEqual(yield* writes, [1, 5])
    }).pipe(Effect.scoped, Effect.provide(MemoryNetwork.layer))
  )

  it.effect("writes what it holds back before it breaks the connection", () =>
    Effect.gen(function* () {
      const ask = yield* play([[Turn.oneWrite, Turn.say("one"), Turn.say("two"), Move.cut]])
      const { stream } = yield* ask(question)
      const seen: Array<string> = []
      yield* Stream.runForEach(Stream.decodeText(stream), (text) => Effect.sync(() => seen.push(text))).pipe(
        Effect.ignore
      )
      assert.lengthOf(seen, 1)
      assert.match(seen[0] ?? "", /one.*two/s)
    }).pipe(Effect.scoped, Effect.provide(MemoryNetwork.layer))
  )

  it.effect("refuses a request too many, and one that is not the format's", () =>
    Effect.gen(function* () {
      const ask = yield* play([])
      const unscripted = yield* ask(question)
      assert.strictEqual(unscripted.status, 400)
      assert.include(yield* unscripted.text, "The script has no turn for request 1: What now?")
      const wrong = yield* ask({ ...question, messages: [{ role: "tool", content: "orphan" }] })
      assert.strictEqual(wrong.status, 400)
      assert.include(yield* wrong.text, "tool_call_id")
      const image = { type: "image_url", image_url: { url: "data:image/tiff;base64,AAAA" } }
      const unseen = yield* ask({ ...question, messages: [{ role: "user", content: [image] }] })
      assert.strictEqual(unseen.status, 400)
      assert.include(yield* unseen.text, "image_url")
    }).pipe(Effect.scoped, Effect.provide(MemoryNetwork.layer))
  )
})
