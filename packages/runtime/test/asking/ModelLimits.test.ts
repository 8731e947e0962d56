import { stall } from "@bowline/testing/http/Move"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say, type Turn } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber } from "effect"
import * as ModelTable from "../../src/provider/ModelTable.ts"
import type { PlansConfig } from "../../src/config/PlansConfig.ts"

type Config = Partial<PlansConfig["Service"]>

/** After how many seconds a provider that does this is given up, and why. */
const givenUp = (turn: Turn, config: Config) =>
  Effect.gen(function* () {
    const started = yield* Clock.currentTimeMillis
    const { frames } = yield* TestKit.post({ question: "?" })
    const reader = yield* Effect.forkChild(Effect.zip(TestKit.readAll(frames), Clock.currentTimeMillis))
    yield* TestKit.pass("25 minutes", "10 seconds")
    const [events, now] = yield* Fiber.join(reader)
    return [(now - started) / 1_000, TestKit.single(events, "error").code]
  }).pipe(Effect.provide(TestKit.layer({ script: () => turn, config: { maxRetries: 0, ...config } })), Effect.scoped)

const firstToken = "provider_first_token_timeout"
const idle = "provider_idle_timeout"

/** What the model was shown of a result of 20,000 characters. */
const shown = (config: Config) =>
  Effect.gen(function* () {
    const agents = [{ name: "bob", endpoint: "http://bob.test/", skills: [{ id: "ask" }] }]
    yield* TestKit.readAll((yield* TestKit.post({ question: "?", agents })).frames)
    const asked = yield* (yield* ScriptedProvider).asked.all
    return asked.at(-1)?.messages.flatMap((message) => (message.role === "tool" ? [message.content] : []))[0] ?? ""
  }).pipe(
    Effect.provide(
      TestKit.layer({
        script: [[callTool("bob_ask", { input: "hi" })], [say("ok")]],
        peers: { call: () => Effect.succeed({ state: "completed", content: "x".repeat(20_000), verified: "unknown" }) },
        config
      })
    ),
    Effect.scoped
  )

describe("ModelLimits", () => {
  it.effect.each([
    ["scripted/model", 120, 120],
    ["scripted/gpt-4.1", 120, 120],
    ["scripted/gpt-5-mini-2025-08-07", 600, 300]
  ] as const)("lets %s be silent for %i s before its first content, and for %i s after it", ([model, first, next]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* givenUp([stall], { model }), [first, firstToken])
      assert.deepStrictEqual(yield* givenUp([say("a"), stall], { model }), [next, idle])
    })
  )

  it.effect.each(["scripted/gpt-4.1", "scripted/gpt-5"])("lets %s be silent for as long as is configured", (model) =>
    Effect.gen(function* () {
      const config = { model, firstTokenTimeout: Duration.seconds(200), idleTimeout: Duration.seconds(50) }
      assert.deepStrictEqual(yield* givenUp([stall], config), [200, firstToken])
      assert.deepStrictEqual(yield* givenUp([say("a"), stall], config), [50, idle])
    })
  )

  it.effect("waits for a fallback model as long as for any of its kind", () =>
    Effect.gen(function* () {
      const config = { model: "scripted/gpt-5", fallbackModels: ["scripted/gpt-4.1"] }
      assert.deepStrictEqual(yield* givenUp([stall], config), [720, firstToken])
    })
  )

  it.effect("shows a model no more of a result than its window has room for", () =>
    Effect.gen(function* () {
      assert.notInclude(yield* shown({}), "left out")
      assert.include(yield* shown({ contextWindow: 10_000 }), "[… 11000 characters left out …]")
      const known = { model: "scripted/gpt-3.5-turbo", contextWindow: 10_000 }
      assert.include(yield* shown(known), "[… 5255 characters left out …]")
    })
  )

  it.effect("uses what is configured for a model, and for its provider", () =>
    Effect.gen(function* () {
      const models = ModelTable.overrides([["gpt-3.5-turbo", { contextWindow: 10_000, isReasoning: true }]])
      const config = { model: "scripted/gpt-3.5-turbo", models: () => models }
      assert.include(yield* shown(config), "[… 11000 characters left out …]")
      assert.deepStrictEqual(yield* givenUp([stall], config), [600, firstToken])
      const providerTimers = new Map([["scripted", { firstToken: Duration.seconds(30), idle: Duration.seconds(20) }]])
      const both = { ...config, firstTokenTimeout: Duration.seconds(200), idleTimeout: Duration.seconds(50) }
      assert.deepStrictEqual(yield* givenUp([stall], { ...both, providerTimers }), [30, firstToken])
      assert.deepStrictEqual(yield* givenUp([say("a"), stall], { ...both, providerTimers }), [20, idle])
      const others = new Map([["other", { firstToken: Duration.seconds(30) }]])
      assert.deepStrictEqual(yield* givenUp([stall], { ...both, providerTimers: others }), [200, firstToken])
    })
  )
})
