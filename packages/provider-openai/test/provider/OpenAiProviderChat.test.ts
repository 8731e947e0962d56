import { Provider, type ProviderPart, type ProviderRequest } from "@bowline/runtime/provider/Provider"
import { json, type Host } from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import * as Move from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { providerCases, shown } from "@bowline/testing/unstable/provider/ProviderCases"
import { fromRequest } from "@bowline/testing/unstable/provider/Script"
import * as Turn from "@bowline/testing/provider/Turn"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import {
  Cause,
  Config,
  ConfigProvider,
  Context,
  Deferred,
  Effect,
  Exit,
  Fiber,
  Layer,
  Redacted,
  Stream,
  Tracer
} from "effect"
import { TestClock } from "effect/testing"
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
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
    Layer.build(OpenAiProvider.layerChat({ baseUrl: `${url}/v1/`, apiKey: Redacted.make(key), ...options })),
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

const events =
  (...moves: ReadonlyArray<Move.Move>): Host =>
  () =>
    Effect.succeed({ status: 200, headers: { "content-type": "text/event-stream" }, body: Move.toStream(moves) })

const chunk = (choice: object) => Move.write(`data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`)
const said = chunk({ delta: { content: "one" } })
const stopped = chunk({ delta: {}, finish_reason: "stop" })

describe.each([
  ["layerChatConfig", OpenAiProvider.layerChatConfig],
  ["layerResponsesConfig", OpenAiProvider.layerResponsesConfig]
])("OpenAiProvider.%s", (_, layer) => {
  const options = { apiKey: Config.Redacted("MY_KEY") }
  const build = (variables: object, given: Parameters<typeof layer>[0] = options) =>
    Effect.map(Layer.build(layer(given)), Context.get(Provider)).pipe(
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(variables)),
      Effect.scoped,
      Effect.provide(memory)
    )

  it.effect("asks OpenAI itself, with a key of the configuration", () =>
    Effect.map(build({ MY_KEY: key }), ({ name, server }) => {
      assert.strictEqual(name, "openai")
      assert.deepStrictEqual(server, { address: "api.openai.com", port: 443 })
    })
  )

  it.effect("names the variable that is missing", () =>
    Effect.map(Effect.flip(build({})), (error) => assert.include(String(error), "MY_KEY"))
  )

  it.effect("says that a base URL is none, and does not show it", () =>
    Effect.map(
      Effect.exit(build({ MY_KEY: key }, { ...options, baseUrl: Config.succeed(`localhost:8000/v1?key=${key}`) })),
      (exit) => {
        const message = Exit.isFailure(exit) ? Cause.pretty(exit.cause) : ""
        assert.include(message, "baseUrl: Expected an http or https URL")
        assert.notInclude(message, key)
      }
    )
  )
})

describe("a refusal whose body never ends", () => {
  it.effect("is what its status says, after a second", () =>
    Effect.gen(function* () {
      const host: Host = () =>
        Effect.succeed({
          status: 429,
          headers: { "content-type": "application/json", "retry-after": "7" },
          body: Move.toStream([Move.write('{"error":'), Move.stall])
        })
      const provider = yield* providerAt((yield* serve(host)).url)
      const failed = yield* Effect.forkChild(attempt(provider), { startImmediately: true })
      for (let step = 0; step < 20; step++) yield* TestClock.adjust("100 millis")
      const { error } = yield* Fiber.join(failed)
      assert.deepInclude(error?.reason, { _tag: "rate_limited", retryAfterMs: 7_000 })
    }).pipe(Effect.provide(memory))
  )
})

describe.each([
  ["in memory", memory],
  ["on sockets", sockets]
])("OpenAiProvider.layerChat %s", (_, layer) => {
  for (const { title, turn, parts, failure } of providerCases) {
    it.live(title, () =>
      Effect.gen(function* () {
        const host = yield* serve(yield* ChatHost.make([turn]))
        const seen = yield* attempt(yield* providerAt(host.url))
        assert.deepStrictEqual(shown(seen.parts), parts)
        assert.strictEqual(seen.error?.reason._tag, failure)
      }).pipe(Effect.scoped, Effect.provide(layer))
    )
  }
})

describe("OpenAiProvider.layerChat", () => {
  it.effect("reports comments as a sign of life, though they have no content", () =>
    Effect.gen(function* () {
      const pause = Move.wait("1 second")
      const host = yield* serve(
        events(Move.write(": waiting\n\n"), pause, Move.write('data: {"choi'), pause, said, stopped)
      )
      const reader = yield* Effect.forkChild(attempt(yield* providerAt(host.url)), { startImmediately: true })
      for (let step = 0; step < 60; step++) yield* TestClock.adjust("100 millis")
      const { parts } = yield* Fiber.join(reader)
      assert.deepStrictEqual(
        parts.slice(0, 2).map(({ _tag }) => _tag),
        ["Heard", "Heard"]
      )
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("says where it is asked and which model has answered, and traces no key, wherever it stands", () =>
    Effect.gen(function* () {
      const spans: Array<Tracer.Span> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      const host = yield* serve(
        events(Move.write(`data: ${JSON.stringify({ model: "m-2026", choices: [{ finish_reason: "stop" }] })}\n\n`))
      )
      const secrets = { query: "planted-in-query", header: "planted-in-header" }
      const provider = yield* providerAt(host.url, {
        baseUrl: `${host.url}/v1?code=${secrets.query}`,
        headers: { "api-key": secrets.header }
      })
      const { address, port } = provider.server ?? {}
      assert.deepStrictEqual([address, port], [new URL(host.url).hostname, Number(new URL(host.url).port || 80)])
      const { parts } = yield* Effect.provideService(attempt(provider), Tracer.Tracer, tracer)
      assert.deepStrictEqual(parts, [{ _tag: "Finished", reason: "stop", inferred: false, model: "m-2026" }])
      assert.isNotEmpty(spans)
      const traced = JSON.stringify(spans.map(({ name, attributes }) => [name, ...attributes]))
      assert.include(traced, "/v1/chat/completions")
      for (const secret of [key, ...Object.values(secrets)]) assert.notInclude(traced, secret)
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.live("closes the connection at once when it is interrupted", () =>
    Effect.gen(function* () {
      const host = yield* serve(yield* ChatHost.make([[Turn.say("one"), Move.stall]]))
      const provider = yield* providerAt(host.url)
      const started = yield* Deferred.make<void>()
      const reader = yield* Effect.forkChild(
        Stream.runForEach(provider.stream(request), () => Deferred.succeed(started, undefined))
      )
      yield* Deferred.await(started)
      const [recorded] = yield* host.requests.awaitCount(1)
      yield* Fiber.interrupt(reader)
      assert.strictEqual(yield* recorded?.ended ?? Effect.die("No request"), "closed")
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.live("closes the connection at once when it is interrupted before the head of the answer", () =>
    Effect.gen(function* () {
      const host = yield* serve(() => Effect.never)
      const reader = yield* Effect.forkChild(attempt(yield* providerAt(host.url)))
      const [recorded] = yield* host.requests.awaitCount(1)
      yield* Fiber.interrupt(reader)
      assert.strictEqual(yield* recorded?.ended ?? Effect.die("No request"), "closed")
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.effect("makes later attempts on the connections of earlier ones", () =>
    Effect.gen(function* () {
      let connections = 0
      const server = createServer((_, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write('data: {"choices":[{"delta":{"content":"one"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
        setTimeout(() => response.end(), 5)
      }).on("connection", () => connections++)
      const port = yield* Effect.acquireRelease(
        Effect.callback<number>((resume) => {
          server.listen(0, "127.0.0.1", () => resume(Effect.succeed((server.address() as { port: number }).port)))
        }),
        () => Effect.sync(() => server.close())
      )
      const provider = yield* providerAt(`http://127.0.0.1:${port}`)
      for (let made = 0; made < 5; made++) yield* attempt(provider)
      // Undici makes a second one when it is asked while it puts the first one back.
      assert.isAtMost(connections, 2)
    }).pipe(Effect.scoped, Effect.provide(NodeHttpClient.layerUndici))
  )

  it.effect("sends the request in the wire's format, with the key and the other headers, to the base URL", () =>
    Effect.gen(function* () {
      const host = yield* serve(events(said, stopped))
      const provider = yield* providerAt(`${host.url}/openai`, { headers: { "x-title": "Bowline" } })
      yield* attempt(provider)
      const [recorded] = yield* host.requests.all
      assert.strictEqual(recorded?.url.pathname, "/openai/v1/chat/completions")
      assert.deepInclude(recorded?.headers, { authorization: `Bearer ${key}`, "x-title": "Bowline" })
      assert.deepStrictEqual(JSON.parse(recorded?.body ?? ""), {
        model: "m",
        stream: true,
        stream_options: { include_usage: true },
        messages: [
          { role: "system", content: "s" },
          { role: "user", content: "What now?" }
        ]
      })
      const open = yield* providerAt(host.url, { apiKey: undefined as never })
      yield* attempt(open)
      assert.notProperty((yield* host.requests.all)[1]?.headers, "authorization")
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("sends over the wire what it was asked to send", () =>
    Effect.gen(function* () {
      const conversation = JSON.parse(
        readFileSync(`${import.meta.dirname}/golden/conversation.json`, "utf8")
      ) as ProviderRequest
      const host = yield* serve(yield* ChatHost.make(() => [Turn.say("ok")]))
      const provider = yield* providerAt(host.url)
      yield* Stream.runDrain(provider.stream(conversation))
      const [recorded] = yield* host.requests.awaitCount(1)
      assert.deepStrictEqual(
        yield* recorded === undefined ? Effect.die("No request") : ChatHost.asked(recorded),
        fromRequest(conversation)
      )
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("waits after the finish reason for the usage, a second and no longer", () =>
    Effect.gen(function* () {
      const late = Move.write('data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":1}}\n\n')
      const host = yield* serve(events(said, stopped, Move.wait("900 millis"), late, Move.stall))
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

  it.effect.each([
    ["the finish reason", [], 500, 1_000],
    ["the end marker", [Move.write("data: [DONE]\n\n")], 40, 100]
  ] as const)("counts the wait from %s, though comments keep the connection open", ([, end, pause, limit]) =>
    Effect.gen(function* () {
      const pings = Array.from({ length: 10 }, () => [Move.wait(pause), Move.write(": ping\n\n")]).flat()
      const host = yield* serve(events(said, stopped, ...end, ...pings, Move.stall))
      const reader = yield* Effect.forkChild(attempt(yield* providerAt(host.url)))
      yield* TestClock.adjust(limit - 1)
      assert.isUndefined(reader.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.isDefined(reader.pollUnsafe())
      assert.deepInclude((yield* Fiber.join(reader)).parts.at(-1), { _tag: "Finished", reason: "stop" })
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("reads the usage that has come behind the finish, however slow its consumer is", () =>
    Effect.gen(function* () {
      const late = Move.write('data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":1}}\n\n')
      const host = yield* serve(events(said, stopped, Move.wait(10), late, Move.stall))
      const provider = yield* providerAt(host.url)
      const tags: Array<string> = []
      const slow = Stream.runForEach(provider.stream(request), ({ _tag }) =>
        Effect.sleep("5 seconds").pipe(Effect.andThen(Effect.sync(() => void tags.push(_tag))))
      )
      const reader = yield* Effect.forkChild(slow, { startImmediately: true })
      for (let second = 0; second < 20; second++) yield* TestClock.adjust("1 second")
      yield* Fiber.join(reader)
      assert.deepStrictEqual(tags, ["TextDelta", "UsageReported", "Finished"])
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("does not wait for the connection to end after the end marker", () =>
    Effect.gen(function* () {
      const host = yield* serve(events(said, stopped, Move.write("data: [DONE]\n\n"), Move.stall))
      const reader = yield* Effect.forkChild(attempt(yield* providerAt(host.url)))
      yield* TestClock.adjust("100 millis")
      assert.deepInclude((yield* Fiber.join(reader)).parts.at(-1), { _tag: "Finished", inferred: false })
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("has no timer of its own while the answer is not finished", () =>
    Effect.gen(function* () {
      const host = yield* serve(events(said, Move.stall))
      const reader = yield* Effect.forkChild(attempt(yield* providerAt(host.url)))
      yield* TestClock.adjust("10 hours")
      assert.isUndefined(reader.pollUnsafe())
      yield* Fiber.interrupt(reader)
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect.each([
    ["a page", 200, "text/html", "<h1>Welcome</h1>", "stream_corrupt"],
    ["a whole completion", 200, "application/json", '{"choices":[{"message":{"content":"hi"}}]}', "stream_corrupt"],
    ["an error", 200, "application/json", '{"error":{"message":"Slow down","code":429}}', "rate_limited"],
    ["an error in words", 200, "text/plain", '{"error":"Buy credits"}', "billing"],
    ["an error in a list", 200, "application/json", '[{"error":{"message":"no","code":401}}]', "auth"],
    ["an error by its status", 200, "application/json", '{"code":401,"message":"no"}', "auth"],
    ["an error by its type", 200, "application/json", '{"object":"error","message":"Overloaded"}', "overloaded"],
    ["an error of unknown meaning", 200, "application/json", '{"error":{"message":"boom"}}', "stream_corrupt"],
    ["a page that says Bad gateway", 200, "text/html", "<h1>Bad gateway</h1>", "stream_corrupt"],
    ["a page that speaks of credits", 200, "text/html", "<a>Buy credits</a>", "stream_corrupt"],
    ["a page that speaks of a key", 200, "text/html", "<p>invalid_api_key</p>", "stream_corrupt"],
    ["a page that speaks of a context", 200, "text/plain", "maximum context length", "stream_corrupt"],
    ["JSON that is no error", 200, "application/json", '{"message":"Buy credits","plan":"free"}', "stream_corrupt"],
    ["a text in JSON", 200, "application/json", '"Buy credits"', "stream_corrupt"],
    ["an empty body", 200, "text/html", "", "stream_corrupt"],
    ["a redirect", 302, "text/html", "Moved", "unknown"],
    ["a redirect to a page that speaks of credits", 302, "text/html", "<a>Buy credits</a>", "unknown"],
    ["a page of a proxy", 502, "text/html", "<h1>Bad gateway</h1>", "server_error"]
  ] as const)("fails on %s instead of an event stream", ([, status, type, body, reason]) =>
    Effect.gen(function* () {
      const host = yield* serve(() =>
        Effect.succeed({ status, headers: { "content-type": type }, body: Move.toStream([Move.write(body)]) })
      )
      const { parts, error } = yield* attempt(yield* providerAt(host.url))
      assert.deepStrictEqual([parts, error?.reason._tag], [[], reason])
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.live("distinguishes a connection that could not be made from one that was lost", () =>
    Effect.gen(function* () {
      const { url } = yield* Effect.scoped(serve(() => Effect.never))
      const { error } = yield* attempt(yield* providerAt(url))
      assert.deepInclude(error?.reason, { _tag: "transport", kind: "connect" })
      const host = yield* serve(events(said, Move.wait("20 millis"), Move.cut))
      const lost = yield* attempt(yield* providerAt(host.url))
      assert.deepInclude(lost.error?.reason, { _tag: "transport", kind: "reset" })
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.effect("shows no key of the request, though the server repeats it", () =>
    Effect.gen(function* () {
      const secret = "azure-key-987654321"
      const host = yield* serve(({ headers }) =>
        Effect.succeed(
          json(401, { error: { message: `Wrong: ${headers["authorization"]}, ${secret}, sk-proj-********zzzz` } })
        )
      )
      const { error } = yield* attempt(yield* providerAt(host.url, { headers: { "api-key": secret } }))
      assert.strictEqual(error?.message, "Wrong: Bearer [redacted], [redacted], [redacted]")
      assert.notInclude(JSON.stringify(error), key)
    }).pipe(Effect.scoped, Effect.provide(memory))
  )
})
