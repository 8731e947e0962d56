import { SessionId } from "@bowline/domain/session/Session"
import { callTool, say, usage } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Array, Effect, Layer, Logger, References, Struct } from "effect"
import { leastCached, PromptCache } from "../../src/asking/PromptCache.ts"
import { overrides } from "../../src/provider/ModelTable.ts"
import { bob } from "../plan/Bob.ts"
import { hi } from "../plan/Mortal.ts"
import { apart, measured } from "../telemetry/Measured.ts"

const session = SessionId.make("session_00000000-0000-0000-0000-000000000000")
const used = (input_tokens: number, cached_input_tokens: number) => ({
  input_tokens,
  cached_input_tokens,
  output_tokens: 1,
  reasoning_tokens: 0
})

describe("PromptCache", () => {
  it("tells a step that reads less than half of what the step before could have cached", () => {
    const prompts = new PromptCache()
    assert.isUndefined(prompts.answered(session, "openai/m", used(10_000, 0), 0))
    assert.isUndefined(prompts.answered(session, "openai/m", used(12_000, 5_000), 1))
    assert.strictEqual(prompts.answered(session, "openai/m", used(14_000, 5_999), 2), 12_000)
    // A shorter prompt, of a session that was reverted, can read no more than it has.
    assert.isUndefined(prompts.answered(session, "openai/m", used(8_000, 4_000), 3))
    assert.strictEqual(prompts.answered(session, "openai/m", used(2_000, 0), 4), 2_000)
  })

  it("expects nothing behind another model, a short prompt, five minutes, or a summary", () => {
    const prompts = new PromptCache()
    prompts.answered(session, "openai/m", used(10_000, 0), 0)
    assert.isUndefined(prompts.answered(session, "openai/n", used(10_000, 0), 1))
    assert.isUndefined(prompts.answered(session, "openai/n", used(10_000, 0), 300_001))
    prompts.forget(session)
    assert.isUndefined(prompts.answered(session, "openai/n", used(1_023, 0), 300_002))
    assert.isUndefined(prompts.answered(session, "openai/n", used(10_000, 0), 300_003))
    assert.deepStrictEqual(["openai/m", "anthropic/claude-haiku-4-5"].map(leastCached), [1_024, 4_096])
  })
})

describe("the cache of a session's prompts", () => {
  const priced = (price: object) => ({
    models: () => overrides([["scripted/model", { price: { input: 1, output: 1, ...price } }]])
  })
  const run = (config: object) =>
    Effect.gen(function* () {
      const lines: Array<object> = []
      const logger = Logger.make<unknown, void>(({ fiber, message }) => {
        const [line] = Array.ensure(message)
        const told = fiber.getRef(References.CurrentLogAnnotations)
        if (line !== "prompt_cache_lost") return
        const isOfPlan = typeof told["plan_id"] === "string"
        lines.push({ isOfPlan, ...Struct.pick(told, ["model", "cached_input_tokens", "cacheable_tokens"]) })
      })
      const script = [
        [callTool("bob_ask", { input: "1" }), usage(used(4_000, 0))],
        [callTool("bob_ask", { input: "2" }), usage(used(5_000, 4_000))],
        [say("done"), usage(used(6_000, 1_000))]
      ]
      yield* Effect.gen(function* () {
        const { frames } = yield* TestKit.post({ question: "?", agents: [bob] })
        yield* TestKit.readAll(frames)
      }).pipe(
        Effect.scoped,
        Effect.provide(
          Layer.provideMerge(
            TestKit.layer({ script, peers: { call: () => Effect.succeed(hi) }, config }),
            Logger.layer([logger])
          )
        )
      )
      return { lines, ratios: yield* measured("bowline.cache_hit_ratio") }
    }).pipe(apart)

  it.effect("is warned of where a step loses it, and measured by model", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* run(priced({ cached: 0.1 })), {
        lines: [{ isOfPlan: true, model: "scripted/model", cached_input_tokens: 1_000, cacheable_tokens: 5_000 }],
        ratios: 3
      })
    })
  )

  it.effect("is expected of no model that has no price for it", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* run(priced({})), { lines: [], ratios: 0 })
    })
  )
})
