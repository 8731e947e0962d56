import { anonymous } from "@bowline/domain/caller/CallerName"
import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import { TaskId } from "@bowline/domain/tool/TaskState"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Deferred, Duration, Effect, Fiber, Layer, Stream } from "effect"
import { AiError, LanguageModel, type Response } from "effect/ai"
import { McpClient } from "../../src/remote/McpClient.ts"
import { PeerClient } from "../../src/remote/PeerClient.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { PlansConfig } from "../../src/config/PlansConfig.ts"
import { CredentialPool } from "../../src/asking/CredentialPool.ts"
import * as LanguageModelProvider from "../../src/provider/LanguageModelProvider.ts"
import { Provider } from "../../src/provider/Provider.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"

type Part = Response.StreamPartEncoded
type Answer = Stream.Stream<Part, AiError.AiError>

const say = (delta: string): Part => ({ type: "text-delta", id: "t", delta })
const finish = (reason: Response.FinishReason): Part => ({
  type: "finish",
  reason,
  usage: {
    inputTokens: { uncached: 3, total: undefined, cacheRead: 4, cacheWrite: 5 },
    outputTokens: { total: 7, text: undefined, reasoning: 2 }
  }
})
const call = (name: string, params: unknown, id = "c"): Part => ({ type: "tool-call", id, name, params })

const failure = (reason: AiError.AiErrorReason): Answer =>
  Stream.fail(AiError.make({ module: "Test", method: "streamText", reason }))

/** A model of the app that gives these answers in turn, and the requests that it was given. */
const model = (...answers: ReadonlyArray<Answer>) => {
  const asked: Array<LanguageModel.ProviderOptions> = []
  const made = LanguageModel.make({
    generateText: () => Effect.die("Answers are streamed"),
    streamText: (options) => {
      asked.push(options)
      return answers[asked.length - 1] ?? Stream.die("Asked too often")
    }
  })
  const provider = LanguageModelProvider.layer({ name: "app" }).pipe(
    Layer.provide(Layer.effect(LanguageModel.LanguageModel, made))
  )
  return { asked, provider }
}

const plans = (provider: Layer.Layer<Provider>, peers: Partial<PeerClient["Service"]> = {}) =>
  Plans.layer.pipe(
    Layer.provide([
      Layer.provide(CredentialPool.layerProvider, provider),
      PlansConfig.layer({ model: "app/model", maxRetries: 0 }),
      McpClient.layerNone,
      Layer.mock(PeerClient, peers)
    ]),
    Layer.provideMerge(MemoryStore.layer)
  )

const request = { model: "model", system: "", messages: [], tools: [], toolChoice: "auto" as const }

/** All parts of one attempt, and why it failed. */
const attempt = (answer: Answer) =>
  Effect.gen(function* () {
    const parts: Array<unknown> = []
    const reason = yield* (yield* Provider).stream(request).pipe(
      Stream.runForEach((part) => Effect.sync(() => parts.push(part))),
      Effect.as(undefined),
      Effect.catch((error) => Effect.succeed(error.reason))
    )
    return { parts, reason }
  }).pipe(Effect.provide(model(answer).provider))

const bob = { name: "bob", endpoint: "http://bob.test/", skills: [{ id: "ask", description: "Asks Bob" }] }

describe("LanguageModelProvider", () => {
  it.effect("answers a plan, with the tools called by the planner on the way", () => {
    const { asked, provider } = model(
      Stream.make<ReadonlyArray<Part>>(
        { type: "reasoning-delta", id: "r", delta: "hm" },
        { type: "tool-params-start", id: "c", name: "bob_ask" },
        call("bob_ask", { input: "hi" }),
        call("no_such_tool", {}, "d"),
        finish("tool-calls")
      ),
      Stream.make(say("Bob says "), say("hello"), finish("stop"))
    )
    const called: Array<unknown> = []
    const peers: Partial<PeerClient["Service"]> = {
      discover: () => Effect.succeed({ skills: [], did: null }),
      call: ({ input }) => {
        called.push(input)
        return Effect.succeed({ state: "completed", content: "hello", verified: "unknown" })
      }
    }
    return Effect.gen(function* () {
      const events = yield* TestKit.readAll((yield* TestKit.post({ question: "Ask Bob", agents: [bob] })).frames)
      const final = TestKit.single(events, "final")
      assert.deepInclude(final, { text: "Bob says hello", stop_reason: "stop", steps: 2 })
      assert.deepStrictEqual(final.usage, {
        input_tokens: 24,
        output_tokens: 14,
        cached_input_tokens: 8,
        reasoning_tokens: 4
      })
      assert.strictEqual(TestKit.single(events, "reasoning.delta").delta, "hm")
      assert.deepStrictEqual(called, [{ input: "hi" }])
      const [first, second] = asked
      const [tool] = first?.tools ?? []
      assert.deepInclude(tool, { name: "bob_ask", description: "Asks Bob" })
      assert.deepNestedInclude(tool, { "jsonSchema.required": ["input"] })
      assert.deepStrictEqual(
        second?.prompt.content.map(({ role }) => role),
        ["system", "user", "assistant", "tool"]
      )
      const results = second?.prompt.content.flatMap((message) => (message.role === "tool" ? message.content : []))
      assert.deepStrictEqual(
        results?.map((result) => result.type === "tool-result" && [result.name, result.isFailure]),
        [
          ["bob_ask", false],
          ["no_such_tool", true]
        ]
      )
    }).pipe(Effect.scoped, Effect.provide(plans(provider, peers)))
  })

  it.effect("emits calls only with the finish, and says which had no name", () =>
    Effect.gen(function* () {
      const calls = Stream.make(call("a", '{"b":'), call("", {}), call("a", { b: 1 }), finish("tool-calls"))
      assert.deepStrictEqual((yield* attempt(calls)).parts.slice(-4), [
        { _tag: "ToolCall", call: 0, id: "c", name: "a", arguments: '{"b":' },
        { _tag: "ToolCall", call: 2, id: "call_1", name: "a", arguments: '{"b":1}' },
        { _tag: "CallDropped", reason: "it had no name" },
        { _tag: "Finished", reason: "tool_calls", inferred: false }
      ])
      const cut = yield* attempt(Stream.make(call("a", {})))
      assert.deepStrictEqual(cut.parts, [{ _tag: "ToolCallFragment", call: 0 }])
      assert.strictEqual(cut.reason?._tag, "stream_truncated")
    })
  )

  it.effect("shows the model the files of a question, and what was said in the order in which it was", () =>
    Effect.gen(function* () {
      const { provider, asked } = model(Stream.make(say("ok"), finish("stop")))
      const task_id = TaskId.make("7c4d8a0e-5d9b-4b5f-9d0a-0c2f5e6a7b8c")
      yield* Effect.gen(function* () {
        const { stream } = yield* Provider
        yield* Stream.runDrain(
          stream({
            ...request,
            messages: [
              {
                role: "user",
                parts: [
                  { type: "text", text: "What is this?" },
                  { type: "file", media_type: "image/png", name: "it.png", data: "aGk=" },
                  { type: "file", media_type: "application/pdf", url: "https://files.test/it.pdf" }
                ]
              },
              {
                role: "assistant",
                parts: [
                  { type: "tool_call", task_id, tool: "look", input: {} },
                  { type: "text", text: "I look." }
                ]
              },
              { role: "tool", parts: [{ type: "tool_result", task_id, state: "completed", content: "a knot" }] }
            ]
          })
        )
      }).pipe(Effect.provide(provider))
      const [user, assistant] = asked[0]?.prompt.content ?? []
      const files = (user?.role === "user" ? user.content : []).flatMap((part) =>
        part.type === "file" ? [[part.mediaType, part.fileName, String(part.data)]] : []
      )
      assert.deepStrictEqual(files, [
        ["image/png", "it.png", "aGk="],
        ["application/pdf", undefined, "https://files.test/it.pdf"]
      ])
      assert.deepStrictEqual(
        (assistant?.role === "assistant" ? assistant.content : []).map(({ type }) => type),
        ["tool-call", "text"]
      )
    })
  )

  it.effect("believes no end without a finish, and no finish without a reason", () => {
    const { provider } = model(Stream.make(say("Half")), Stream.make(say("Half"), finish("unknown")))
    return Effect.gen(function* () {
      for (const tokens of [0, 7]) {
        const events = yield* TestKit.readAll((yield* TestKit.post({ question: "?" })).frames)
        assert.isEmpty(TestKit.all(events, "final"))
        assert.deepInclude(TestKit.single(events, "error"), { code: "provider_stream_truncated", retryable: true })
        assert.strictEqual(TestKit.all(events, "usage")[0]?.output_tokens ?? 0, tokens)
      }
    }).pipe(Effect.scoped, Effect.provide(plans(provider)))
  })

  it.effect("ends with the finish, whatever the model does after it", () =>
    Effect.gen(function* () {
      const { parts, reason } = yield* attempt(Stream.concat(Stream.make(finish("stop"), say("more")), Stream.never))
      assert.deepNestedInclude(parts.at(-1), { _tag: "Finished" })
      assert.isUndefined(reason)
    })
  )

  const http = (status: number, body: string, headers = {}) => ({ response: { status, headers }, body })
  const network = (code: string) =>
    new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "http://m.test/", cause: { code } })

  it.effect.each<readonly [ProviderErrorReason["_tag"], object, AiError.AiErrorReason]>([
    ["rate_limited", { retryAfterMs: 7_000 }, new AiError.RateLimitError({ retryAfter: Duration.seconds(7) })],
    [
      "rate_limited",
      { retryAfterMs: 3_000 },
      new AiError.RateLimitError({ http: http(429, "", { "Retry-After": "3" }) })
    ],
    ["billing", { retryAfterMs: 60_000 }, new AiError.QuotaExhaustedError({ resetAt: DateTime.makeUnsafe(60_000) })],
    ["auth", {}, new AiError.AuthenticationError({ kind: "InvalidKey" })],
    ["context_overflow", {}, new AiError.InvalidRequestError({ description: "prompt is too long: 200001 tokens" })],
    ["bad_request", {}, new AiError.ContentPolicyError({ description: "no" })],
    ["bad_request", {}, new AiError.ContentPolicyError({ description: "Billing: no credits" })],
    ["bad_request", {}, new AiError.ContentPolicyError({ description: "x", http: http(403, "Your plan") })],
    ["bad_request", {}, new AiError.InvalidRequestError({ description: "The tool stripe_list_billing_meters" })],
    ["bad_request", {}, new AiError.InvalidRequestError({ description: "The tool billing has no schema" })],
    ["bad_request", {}, new AiError.InvalidRequestError({ parameter: "tools", description: "No billing" })],
    ["bad_request", {}, new AiError.UnsupportedSchemaError({ description: "No billing" })],
    [
      "bad_request",
      {},
      new AiError.InvalidRequestError({
        http: http(400, '{"error":{"message":"Invalid tool \'list_billing\': billing","type":"invalid_request_error"}}')
      })
    ],
    [
      "bad_request",
      {},
      new AiError.AuthenticationError({
        kind: "InsufficientPermissions",
        http: http(403, '{"error":{"message":"Refused","metadata":{"reasons":["violence"]}}}')
      })
    ],
    ["auth", { isUnexplained: true }, new AiError.AuthenticationError({ kind: "InsufficientPermissions" })],
    ["billing", {}, new AiError.InvalidRequestError({ http: http(400, '{"error":{"code":"insufficient_quota"}}') })],
    ["model_unavailable", {}, new AiError.UnknownError({ http: http(404, '{"error":{"message":"no such model"}}') })],
    ["overloaded", { status: 529 }, new AiError.InternalProviderError({ description: "x", http: http(529, "") })],
    ["server_error", {}, new AiError.InternalProviderError({ description: "x" })],
    ["stream_corrupt", {}, new AiError.InvalidResponseError({ description: "x" })],
    ["tool_json", {}, new AiError.ToolParameterValidationError({ toolName: "a", description: "x" })],
    ["transport", { kind: "connect" }, network("ECONNREFUSED")],
    ["unknown", {}, network("ABORT_ERR")],
    ["unknown", {}, new AiError.UnknownError({ description: "This operation was aborted" })]
  ])("reports as %s %o what the model says", ([tag, data, said]) =>
    Effect.gen(function* () {
      const { parts, reason } = yield* attempt(Stream.concat(Stream.make(say("Half")), failure(said)))
      assert.deepStrictEqual(parts, [{ _tag: "TextDelta", delta: "Half" }])
      assert.deepInclude(reason, { _tag: tag, ...data })
    })
  )

  it.effect("shows no key that a failure repeats, and fails with an error that comes as a part", () =>
    Effect.gen(function* () {
      const said = new AiError.AuthenticationError({ kind: "InvalidKey", description: "sk-test-0123456789abcdef" })
      assert.notInclude((yield* attempt(failure(said))).reason?.message, "0123456789")
      const quoting: Part = { type: "error", error: { code: "invalid_function", message: "The tool list billing" } }
      assert.strictEqual((yield* attempt(Stream.make(quoting))).reason?._tag, "unknown")
      const error: Part = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } }
      assert.strictEqual((yield* attempt(Stream.make(error, finish("stop")))).reason?._tag, "overloaded")
    })
  )

  it.effect("is unknown when the model's own code was interrupted, and not by us", () =>
    Effect.gen(function* () {
      const { reason } = yield* attempt(Stream.concat(Stream.make(say("Half")), Stream.fromEffect(Effect.interrupt)))
      assert.strictEqual(reason?._tag, "unknown")
    })
  )

  it.effect("interrupts the model when the plan is cancelled", () => {
    const begun = Deferred.makeUnsafe<void>()
    const ended = Deferred.makeUnsafe<void>()
    const { provider } = model(
      Stream.fromEffect(Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)).pipe(
        Stream.onExit(() => Deferred.succeed(ended, undefined))
      )
    )
    return Effect.gen(function* () {
      const { frames, plan_id } = yield* TestKit.post({ question: "?" })
      const reader = yield* Effect.forkChild(TestKit.readAll(frames))
      yield* Deferred.await(begun)
      yield* (yield* Plans).cancel(anonymous, plan_id)
      yield* Deferred.await(ended)
      assert.deepInclude(TestKit.single(yield* Fiber.join(reader), "error"), { reason: "cancelled", stage: "provider" })
    }).pipe(Effect.scoped, Effect.provide(plans(provider)))
  })
})
