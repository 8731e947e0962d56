import { Provider, type ProviderPart, type ProviderRequest } from "@bowline/runtime/provider/Provider"
import { json, type Host } from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import * as Move from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import * as MessagesHost from "@bowline/testing/unstable/provider/MessagesHost"
import { providerCases, shown } from "@bowline/testing/unstable/provider/ProviderCases"
import * as Turn from "@bowline/testing/provider/Turn"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import { Config, ConfigProvider, Context, Effect, Fiber, Layer, Redacted, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as AnthropicProvider from "../../src/provider/AnthropicProvider.ts"

const memory = MemoryNetwork.layer
const sockets = Layer.merge(LoopbackNetwork.layer, NodeHttpClient.layerUndici)

const request: ProviderRequest = {
  model: "m",
  system: "s",
  messages: [{ role: "user", parts: [{ type: "text", text: "What now?" }] }],
  tools: [],
  toolChoice: "auto"
}

const key = "planted-0123456789"

const providerAt = (url: string, options?: Partial<AnthropicProvider.AnthropicOptions>) =>
  Effect.map(
    Layer.build(AnthropicProvider.layer({ baseUrl: url, apiKey: Redacted.make(key), ...options })),
    Context.get(Provider)
  )

const attempt = Effect.fnUntraced(function* (provider: Provider["Service"]) {
  const parts: Array<ProviderPart> = []
  const result = yield* Effect.result(
    Stream.runForEach(provider.stream(request), (part) => Effect.sync(() => void parts.push(part)))
  )
  return { parts, error: result._tag === "Failure" ? result.failure : undefined }
})

const serve = (host: Host) => Effect.flatMap(Network, (network) => network.serve(host))

/** The vendor's error body. */
const refused = (type: string, message: string) => ({ type: "error", error: { type, message }, request_id: "req_011" })

describe.each([
  ["in memory", memory],
  ["on sockets", sockets]
])("AnthropicProvider %s", (_, layer) => {
  for (const { title, turn, parts, failure } of providerCases) {
    it.live(title, () =>
      Effect.gen(function* () {
        const host = yield* serve(yield* MessagesHost.make([turn]))
        const seen = yield* attempt(yield* providerAt(host.url))
        assert.deepStrictEqual(shown(seen.parts), parts)
        assert.strictEqual(seen.error?.reason._tag, failure)
      }).pipe(Effect.scoped, Effect.provide(layer))
    )
  }
})

describe("AnthropicProvider", () => {
  it.effect("asks Anthropic itself, with a key of the configuration, and names the variable that is missing", () =>
    Effect.gen(function* () {
      const configured = AnthropicProvider.layerConfig({ apiKey: Config.Redacted("MY_KEY") })
      const build = (variables: object) =>
        Effect.map(Layer.build(configured), Context.get(Provider)).pipe(
          Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(variables))
        )
      const { server } = yield* build({ MY_KEY: key })
      assert.deepStrictEqual(server, { address: "api.anthropic.com", port: 443 })
      assert.include(String(yield* Effect.flip(build({}))), "MY_KEY")
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("sends the request in the wire's format, with the key, the version and the other headers", () =>
    Effect.gen(function* () {
      const host = yield* serve(yield* MessagesHost.make(() => [Turn.say("ok")]))
      yield* attempt(yield* providerAt(`${host.url}/`, { headers: { "anthropic-beta": "x-2026-01-01" } }))
      yield* attempt(yield* providerAt(`${host.url}/proxy?tenant=a`, { apiKey: undefined as never }))
      const [first, second] = yield* host.requests.all
      assert.strictEqual(first?.url.pathname, "/v1/messages")
      assert.deepInclude(first?.headers, {
        "x-api-key": key,
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "x-2026-01-01",
        "content-type": "application/json",
        accept: "text/event-stream"
      })
      const ephemeral = { cache_control: { type: "ephemeral" } }
      assert.deepStrictEqual(JSON.parse(first?.body ?? ""), {
        model: "m",
        max_tokens: 8_192,
        stream: true,
        system: [{ type: "text", text: "s", ...ephemeral }],
        messages: [{ role: "user", content: [{ type: "text", text: "What now?", ...ephemeral }] }]
      })
      assert.strictEqual(`${second?.url.pathname}${second?.url.search}`, "/proxy/v1/messages?tenant=a")
      assert.notProperty(second?.headers, "x-api-key")
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect.each([
    [400, refused("invalid_request_error", "prompt is too long: 209353 tokens > 200000 maximum"), "context_overflow"],
    [
      400,
      refused(
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length or `max_tokens` and try again"
      ),
      "context_overflow"
    ],
    [
      400,
      refused(
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."
      ),
      "billing"
    ],
    [402, refused("billing_error", "There is an issue with your billing."), "billing"],
    [401, refused("authentication_error", "invalid x-api-key"), "auth"],
    [403, refused("permission_error", "Your API key does not have permission to use the specified resource."), "auth"],
    [404, refused("not_found_error", "model: claude-sonnet-9"), "model_unavailable"],
    [
      400,
      refused(
        "invalid_request_error",
        "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_01. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
      ),
      "history_rejected"
    ],
    [
      400,
      refused(
        "invalid_request_error",
        "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_01."
      ),
      "history_rejected"
    ],
    [400, refused("invalid_request_error", "max_tokens: 99999 > 8192, which is the maximum allowed"), "bad_request"],
    [413, refused("request_too_large", "Request exceeds the maximum size"), "bad_request"],
    [
      429,
      refused(
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 40,000 input tokens per minute. Please reduce the prompt length or the maximum tokens requested, or try again later."
      ),
      "rate_limited"
    ],
    [500, refused("api_error", "Internal server error"), "server_error"],
    [504, refused("timeout_error", "Request timed out"), "server_error"],
    [529, refused("overloaded_error", "Overloaded"), "overloaded"]
  ] as const)("reads a %i of %j as %s, as a status and in the middle of an answer", ([status, body, reason]) =>
    Effect.gen(function* () {
      const event = Move.write(`event: error\ndata: ${JSON.stringify(body)}\n\n`)
      const host = yield* serve(({ url }) =>
        Effect.succeed(
          url.pathname.startsWith("/late")
            ? {
                status: 200,
                headers: { "content-type": "text/event-stream" },
                body: Move.toStream([event, Move.stall])
              }
            : json(status, body, { "retry-after": "7" })
        )
      )
      const early = yield* attempt(yield* providerAt(host.url))
      const late = yield* attempt(yield* providerAt(`${host.url}/late`))
      assert.deepStrictEqual([early.error?.reason._tag, late.error?.reason._tag], [reason, reason])
      if (reason === "rate_limited" || reason === "overloaded") {
        assert.deepInclude(early.error?.reason, { retryAfterMs: 7_000, status })
      }
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("waits after the stop reason for the end of the message, a second and no longer", () =>
    Effect.gen(function* () {
      const host = yield* serve(
        yield* MessagesHost.make([
          [Turn.say("one"), Turn.finish("stop"), Move.wait("900 millis"), Turn.usage({ input_tokens: 2 }), Move.stall]
        ])
      )
      const reader = yield* Effect.forkChild(attempt(yield* providerAt(host.url)))
      yield* TestClock.adjust("999 millis")
      assert.isUndefined(reader.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const { parts } = yield* Fiber.join(reader)
      assert.deepStrictEqual(
        parts.map(({ _tag }) => _tag),
        ["TextDelta", "UsageReported", "Finished"]
      )
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("has no timer of its own while nothing but pings comes", () =>
    Effect.gen(function* () {
      const ping = [Move.wait("1 hour"), Turn.raw('event: ping\ndata: {"type":"ping"}\n\n')]
      const host = yield* serve(yield* MessagesHost.make([[Turn.say("one"), ...ping, ...ping, Move.stall]]))
      const reader = yield* Effect.forkChild(attempt(yield* providerAt(host.url)))
      yield* TestClock.adjust("10 hours")
      assert.isUndefined(reader.pollUnsafe())
      yield* Fiber.interrupt(reader)
      const [recorded] = yield* host.requests.all
      assert.strictEqual(yield* recorded?.ended ?? Effect.die("No request"), "closed")
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("shows no key of the request, though the server repeats it", () =>
    Effect.gen(function* () {
      const secret = "proxy-token-987654321"
      const host = yield* serve(({ headers }) =>
        Effect.succeed(json(401, refused("authentication_error", `Wrong: ${headers["x-api-key"]}, ${secret}`)))
      )
      const { error } = yield* attempt(yield* providerAt(host.url, { headers: { "x-token": secret } }))
      assert.strictEqual(error?.message, "Wrong: [redacted], [redacted]")
      assert.notInclude(JSON.stringify(error), key)
    }).pipe(Effect.scoped, Effect.provide(memory))
  )
})
