import type { MessagePart } from "@bowline/domain/session/Message"
import { Provider, type ProviderPart, type ProviderRequest } from "@bowline/runtime/provider/Provider"
import type { Host } from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import * as Move from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import { type ProviderCase, providerCases, shown } from "@bowline/testing/unstable/provider/ProviderCases"
import * as ResponsesHost from "@bowline/testing/unstable/provider/ResponsesHost"
import { fromRequest } from "@bowline/testing/unstable/provider/Script"
import * as Turn from "@bowline/testing/provider/Turn"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, Redacted, Stream } from "effect"
import { TestClock } from "effect/testing"
import { readFileSync } from "node:fs"
import * as OpenAiProvider from "../../src/provider/OpenAiProvider.ts"

const memory = MemoryNetwork.layer
const sockets = Layer.merge(LoopbackNetwork.layer, NodeHttpClient.layerUndici)

const request: ProviderRequest = {
  model: "m",
  system: "s",
  messages: [{ role: "user", parts: [{ type: "text", text: "What now?" }] }],
  tools: [],
  toolChoice: "auto"
}

const key = "sk-planted-0123456789"

const providerAt = (url: string, options?: Partial<OpenAiProvider.OpenAiOptions>) =>
  Effect.map(
    Layer.build(OpenAiProvider.layerResponses({ baseUrl: `${url}/v1/`, apiKey: Redacted.make(key), ...options })),
    Context.get(Provider)
  )

const attempt = Effect.fnUntraced(function* (provider: Provider["Service"], asked: ProviderRequest = request) {
  const parts: Array<ProviderPart> = []
  const result = yield* Effect.result(
    Stream.runForEach(provider.stream(asked), (part) => Effect.sync(() => void parts.push(part)))
  )
  return { parts, error: result._tag === "Failure" ? result.failure : undefined }
})

const serve = (host: Host) => Effect.flatMap(Network, (network) => network.serve(host))

const golden = (name: string) => readFileSync(`${import.meta.dirname}/golden/${name}`, "utf8")

const recorded =
  (name: string): Host =>
  () =>
    Effect.succeed({
      status: 200,
      headers: { "content-type": "text/event-stream" },
      body: Move.toStream([Move.write(golden(`responses/${name}.sse`)), Move.stall])
    })

/** The end marker of other wires says nothing on this one. */
const onThisWire = (given: ProviderCase): ProviderCase => {
  const last = given.parts.at(-1)
  return last?._tag === "Finished" && last.inferred
    ? {
        ...given,
        title: "infers nothing from an end marker",
        parts: given.parts.slice(0, -1),
        failure: "stream_truncated"
      }
    : given
}

describe.each([
  ["in memory", memory],
  ["on sockets", sockets]
])("OpenAiProvider.layerResponses %s", (_, layer) => {
  for (const { title, turn, parts, failure } of providerCases.map(onThisWire)) {
    it.live(title, () =>
      Effect.gen(function* () {
        const host = yield* serve(yield* ResponsesHost.make([turn]))
        const seen = yield* attempt(yield* providerAt(host.url))
        assert.deepStrictEqual(shown(seen.parts), parts)
        assert.strictEqual(seen.error?.reason._tag, failure)
      }).pipe(Effect.scoped, Effect.provide(layer))
    )
  }
})

describe("OpenAiProvider.layerResponses", () => {
  it.live("closes the connection at once when it is interrupted", () =>
    Effect.gen(function* () {
      const host = yield* serve(yield* ResponsesHost.make([[Turn.say("one"), Move.stall]]))
      const provider = yield* providerAt(host.url)
      const started = yield* Deferred.make<void>()
      const reader = yield* Effect.forkChild(
        Stream.runForEach(provider.stream(request), () => Deferred.succeed(started, undefined))
      )
      yield* Deferred.await(started)
      const [exchange] = yield* host.requests.awaitCount(1)
      yield* Fiber.interrupt(reader)
      assert.strictEqual(yield* exchange?.ended ?? Effect.die("No request"), "closed")
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.effect("sends the request in the wire's format, with the key and the other headers, to the base URL", () =>
    Effect.gen(function* () {
      const host = yield* serve(yield* ResponsesHost.make([[Turn.say("one")]]))
      yield* attempt(yield* providerAt(host.url, { headers: { "x-title": "Bowline" } }))
      const [exchange] = yield* host.requests.all
      assert.strictEqual(exchange?.url.pathname, "/v1/responses")
      assert.deepInclude(exchange?.headers, { authorization: `Bearer ${key}`, "x-title": "Bowline" })
      assert.deepStrictEqual(JSON.parse(exchange?.body ?? ""), {
        model: "m",
        stream: true,
        store: false,
        include: ["reasoning.encrypted_content"],
        instructions: "s",
        input: [{ type: "message", role: "user", content: [{ type: "input_text", text: "What now?" }] }]
      })
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("sends over the wire what it was asked to send", () =>
    Effect.gen(function* () {
      const conversation = JSON.parse(golden("conversation.json")) as ProviderRequest
      const host = yield* serve(yield* ResponsesHost.make(() => [Turn.say("ok")]))
      const { error } = yield* attempt(yield* providerAt(host.url), conversation)
      assert.isUndefined(error)
      const [exchange] = yield* host.requests.all
      assert.deepStrictEqual(
        yield* exchange === undefined ? Effect.die("No request") : ResponsesHost.asked(exchange),
        fromRequest(conversation)
      )
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("returns the model's thoughts to it, where it had them", () =>
    Effect.gen(function* () {
      const host = yield* serve(recorded("reasoning and calls"))
      const provider = yield* providerAt(host.url, { name: "azure" })
      const reader = yield* Effect.forkChild(attempt(provider))
      yield* TestClock.adjust("100 millis")
      const { parts } = yield* Fiber.join(reader)
      const history = parts.flatMap((part): ReadonlyArray<MessagePart> => {
        if (part._tag === "TextDelta") return [{ type: "text", text: part.delta }]
        return part._tag === "ReasoningEnded"
          ? [{ type: "reasoning", text: "", provider: provider.name, signature: part.signature }]
          : []
      })
      const again = yield* Effect.forkChild(
        attempt(provider, { ...request, messages: [...request.messages, { role: "assistant", parts: history }] })
      )
      yield* TestClock.adjust("100 millis")
      yield* Fiber.join(again)
      const [, exchange] = yield* host.requests.all
      const { input } = JSON.parse(exchange?.body ?? "") as { readonly input: ReadonlyArray<object> }
      assert.deepStrictEqual(input.slice(1), [
        { type: "reasoning", summary: [], encrypted_content: "gAAAAABp7fQ==" },
        { type: "message", role: "assistant", content: [{ type: "output_text", text: "I ask." }] },
        { type: "reasoning", summary: [], encrypted_content: "gAAAAABp8aR==" }
      ])
    }).pipe(Effect.scoped, Effect.provide(memory))
  )
})
