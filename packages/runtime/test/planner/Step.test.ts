import { anonymous } from "@bowline/domain/caller/CallerName"
import { RateLimited } from "@bowline/domain/provider/ProviderError"
import { cut, stall, wait } from "@bowline/testing/http/Move"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, error, finish, say, usage } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { type Duration, Effect, Fiber, Layer, Stream } from "effect"
import { Plans } from "../../src/plan/Plans.ts"
import { CredentialPool } from "../../src/asking/CredentialPool.ts"
import { Provider, type ProviderPart } from "../../src/provider/Provider.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { askBob, bob } from "../plan/Bob.ts"

/** What a reader has when it is over: the deltas that were not taken back. */
const assemble = (events: ReturnType<typeof TestKit.seen>): string => {
  const texts = new Map<string, string>()
  for (const event of events) {
    if (typeof event === "string") continue
    if (event.event === "text.delta") {
      const key = `${event.data.step}.${event.data.attempt}`
      texts.set(key, (texts.get(key) ?? "") + event.data.delta)
    }
    if (event.event === "text.retract") texts.delete(`${event.data.step}.${event.data.attempt}`)
  }
  return [...texts.values()].join("")
}

const run = Effect.fnUntraced(function* (body: object = {}, minutes = 5) {
  const { frames } = yield* TestKit.post({ question: "?", ...body })
  const reader = yield* Effect.forkChild(TestKit.readAll(frames))
  yield* TestKit.pass(minutes * 60_000, "1 second")
  const events = yield* Fiber.join(reader)
  const requests = yield* (yield* ScriptedProvider).asked.all
  return { events, requests }
})

const provide = (script: Parameters<typeof TestKit.layer>[0]["script"]) => Effect.provide(TestKit.layer({ script }))

describe("Step", () => {
  it.effect("asks again after 429, twice, and says how long it waits", () =>
    Effect.gen(function* () {
      const { events, requests } = yield* run()
      assert.strictEqual(requests.length, 3)
      const [first, second] = TestKit.all(events, "retry")
      assert.deepInclude(first, { step: 1, attempt: 2, model: "scripted/model" })
      assert.strictEqual(first?.error.code, "provider_rate_limited")
      assert.isTrue((first?.delay_ms ?? 0) >= 500 && (first?.delay_ms ?? 0) <= 1_000)
      assert.strictEqual(second?.attempt, 3)
      assert.isTrue((second?.delay_ms ?? 0) >= 1_000 && (second?.delay_ms ?? 0) <= 2_000)
      assert.isEmpty(TestKit.all(events, "text.retract"))
      assert.strictEqual(TestKit.single(events, "final").text, "fine")
    }).pipe(provide([[error(429)], [error(429)], [say("fine")]]))
  )

  it.effect("gives up after four attempts, and tells why each of them failed", () =>
    Effect.gen(function* () {
      const { events, requests } = yield* run()
      assert.strictEqual(requests.length, 4)
      const failure = TestKit.single(events, "error")
      assert.deepInclude(failure, { code: "provider_transport", retryable: true })
      assert.deepStrictEqual(failure.data, {
        attempts: 4,
        reasons: ["rate_limited", "server_error", "overloaded", "transport"],
        credential: "scripted-1",
        partial: true
      })
      assert.strictEqual(assemble(events), "kept")
    }).pipe(provide([[error(429)], [error(500)], [error(529)], [say("kept"), cut]]))
  )

  it.effect("retracts what was shown before it asks again, so that nothing is read twice", () =>
    Effect.gen(function* () {
      const { events } = yield* run()
      assert.deepStrictEqual(TestKit.all(events, "text.retract"), [{ step: 1, attempt: 1 }])
      assert.strictEqual(assemble(events), "Hello world")
      const final = TestKit.single(events, "final")
      assert.strictEqual(final.text, "Hello world")
      assert.strictEqual(final.usage.input_tokens, 12)
    }).pipe(
      provide([
        [say("Hello w"), usage({ input_tokens: 5 }), cut],
        [say("Hello "), say("world"), usage({ input_tokens: 7 })]
      ])
    )
  )

  it.effect("waits as long as Retry-After says, and not at all when that is longer than a minute", () =>
    Effect.gen(function* () {
      const { events } = yield* run()
      const { delay_ms } = TestKit.single(events, "retry")
      assert.isTrue(delay_ms >= 30_000 && delay_ms <= 33_000)
      const { events: refused, requests } = yield* run()
      assert.deepInclude(TestKit.single(refused, "error").data, { attempts: 1, retry_after_ms: 61_000 })
      assert.strictEqual(requests.length, 3)
    }).pipe(
      provide([[error(429, {}, { "retry-after": "30" })], [say("fine")], [error(429, {}, { "retry-after": "61" })]])
    )
  )

  it.effect("does not ask again when nothing would be different", () =>
    Effect.gen(function* () {
      const { events, requests } = yield* run()
      assert.strictEqual(requests.length, 1)
      assert.deepInclude(TestKit.single(events, "error"), { code: "provider_auth", retryable: false })
    }).pipe(provide([[error(401)]]))
  )

  it.effect("tries once more after two minutes of silence, not more often", () =>
    Effect.gen(function* () {
      const { events, requests } = yield* run()
      assert.strictEqual(requests.length, 2)
      assert.deepInclude(TestKit.single(events, "error").data, {
        reasons: ["first_token_timeout", "first_token_timeout"]
      })
    }).pipe(provide(() => [stall]))
  )

  it.effect("tells which model is in use, as soon as another one takes its place", () =>
    Effect.gen(function* () {
      const plans = yield* Plans
      const { plan_id } = yield* TestKit.post({ question: "?" })
      const models: Array<string> = []
      for (const time of ["100 millis", "1 second", "1 minute"] as const) {
        yield* TestKit.pass(time, "100 millis")
        models.push((yield* plans.get(anonymous, plan_id)).model)
      }
      assert.deepStrictEqual(models, ["scripted/model", "scripted/other", "scripted/other"])
      assert.strictEqual((yield* plans.get(anonymous, plan_id)).state, "completed")
    }).pipe(
      Effect.provide(
        TestKit.layer({
          script: ({ model }) =>
            model === "model" ? [wait("500 millis"), error(404)] : [say("at"), wait("30 seconds"), say(" last")],
          config: { fallbackModels: ["scripted/other"] }
        })
      ),
      Effect.scoped
    )
  )

  it.effect("tells which model is in use when the first one has no credential left after a tool", () =>
    Effect.gen(function* () {
      const pool = yield* CredentialPool
      const { plan_id, frames } = yield* TestKit.post({ question: "?", agents: [bob] })
      yield* TestKit.pass("1 second")
      const scope = {
        provider: "scripted",
        credential: "scripted-1",
        model: "scripted/model",
        stage: "provider"
      } as const
      yield* pool.failed({ ...scope, reason: new RateLimited({ message: "Too many" }) })
      yield* TestKit.pass("10 seconds")
      yield* TestKit.readAll(frames)
      const plans = yield* Plans
      assert.deepInclude(yield* plans.get(anonymous, plan_id), { state: "completed", model: "scripted/other" })
      const asked = yield* (yield* ScriptedProvider).asked.all
      assert.deepStrictEqual(
        asked.map(({ model }) => model),
        ["model", "other"]
      )
    }).pipe(
      Effect.provide(
        TestKit.layer({
          script: ({ model }) => (model === "model" ? askBob : [say("done")]),
          config: { fallbackModels: ["scripted/other"] },
          peers: {
            call: () =>
              Effect.delay(Effect.succeed({ state: "completed", content: "hi", verified: "unknown" }), "5 seconds")
          }
        })
      ),
      Effect.scoped
    )
  )

  it.effect("is told to wait for a retry, and then for the provider again", () =>
    Effect.gen(function* () {
      const plans = yield* Plans
      const { plan_id } = yield* TestKit.post({ question: "?" })
      const stageAfter = (time: Duration.Input) =>
        Effect.andThen(
          TestKit.pass(time, "1 second"),
          Effect.map(plans.get(anonymous, plan_id), ({ stage }) => stage)
        )
      assert.deepStrictEqual(yield* Effect.all([stageAfter("10 seconds"), stageAfter("50 seconds")]), [
        "backoff",
        "provider"
      ])
    }).pipe(provide([[error(503, {}, { "retry-after": "50" })], [stall]]), Effect.scoped)
  )

  it.effect("is cancelled in the middle of a wait, and asks nobody any more", () =>
    Effect.gen(function* () {
      const plans = yield* Plans
      const { plan_id } = yield* TestKit.post({ question: "?" })
      yield* TestKit.pass("10 seconds")
      const plan = yield* plans.cancel(anonymous, plan_id)
      assert.deepInclude(plan.error, { reason: "cancelled", stage: "backoff" })
      yield* TestKit.pass("2 minutes", "1 second")
      assert.strictEqual((yield* (yield* ScriptedProvider).asked.all).length, 1)
    }).pipe(
      provide(() => [error(503, {}, { "retry-after": "50" })]),
      Effect.scoped
    )
  )

  it.effect(
    "continues where the provider stopped at its limit, three times, and does not make the calls of a cut answer",
    () =>
      Effect.gen(function* () {
        const { events, requests } = yield* run()
        const final = TestKit.single(events, "final")
        assert.deepInclude(final, { stop_reason: "max_tokens", text: "one two three four", steps: 1, tool_calls: 0 })
        assert.strictEqual(assemble(events), final.text)
        assert.strictEqual(requests.length, 4)
        assert.deepStrictEqual(requests.at(-1)?.messages.slice(1, 2), [
          { role: "assistant", text: "one two three ", calls: [] }
        ])
      }).pipe(
        provide([
          [say("one "), finish("length")],
          [say("two "), finish("length")],
          [say("three "), finish("length")],
          [say("four"), callTool("x", {}), finish("length")]
        ])
      )
  )

  it.effect("keeps what it had before a continuation that is retracted, and that comes to nothing", () =>
    Effect.gen(function* () {
      const { frames, session_id } = yield* TestKit.post({ question: "?" })
      const reader = yield* Effect.forkChild(TestKit.readAll(frames))
      yield* TestKit.pass("1 minute", "1 second")
      const events = yield* Fiber.join(reader)
      assert.deepStrictEqual(TestKit.all(events, "text.retract"), [{ step: 1, attempt: 2 }])
      assert.strictEqual(assemble(events), "one ")
      assert.deepInclude(TestKit.single(events, "error").data, { partial: true })
      const history = yield* (yield* SessionStore).history(session_id)
      assert.deepStrictEqual(history.at(-1)?.parts, [{ type: "text", text: "one ", partial: true }])
    }).pipe(provide([[say("one "), finish("length")], [say("two "), cut], [error(400)]]))
  )

  it.effect.each([
    ["content_filter", 1],
    ["refusal", 1],
    ["pause", 7]
  ] as const)("does not make the calls of an answer that ends in %s", ([reason, attempts]) => {
    let asked = 0
    const adapter = Layer.succeed(Provider, {
      name: "scripted",
      stream: () => {
        asked++
        return Stream.make<ReadonlyArray<ProviderPart>>(
          { _tag: "TextDelta", delta: "I" },
          { _tag: "ToolCall", call: 0, id: "a", name: "bob_ask", arguments: '{"input":"x"}' },
          { _tag: "Finished", reason, inferred: false }
        )
      }
    })
    return Effect.gen(function* () {
      const { frames, session_id } = yield* TestKit.post({ question: "?", agents: [bob] })
      const events = yield* TestKit.readAll(frames)
      assert.isEmpty(TestKit.all(events, "task.started"))
      const text = "I".repeat(attempts)
      assert.deepInclude(TestKit.single(events, "final"), { stop_reason: reason, steps: 1, tool_calls: 0, text })
      assert.strictEqual(asked, attempts)
      const { items } = yield* (yield* SessionStore).messages(session_id, { limit: 10 })
      assert.notInclude(JSON.stringify(items), "tool_call")
    }).pipe(Effect.provide(TestKit.layerOfCredentials([adapter])), Effect.scoped)
  })

  it.effect("asks once more for an answer that was empty, and then says so", () =>
    Effect.gen(function* () {
      const { events } = yield* run()
      assert.strictEqual(TestKit.single(events, "final").text, "sorry")
      const { events: empty, requests } = yield* run()
      assert.deepInclude(TestKit.single(empty, "error"), { code: "provider_empty_answer", retryable: true })
      assert.strictEqual(requests.length, 4)
    }).pipe(provide([[finish("stop")], [say("sorry")], [finish("stop")], [wait("1 second"), finish("stop")]]))
  )
})
