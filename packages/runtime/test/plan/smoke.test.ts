import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import { PeerClient } from "../../src/peer/PeerClient.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { PlansConfig } from "../../src/plan/PlansConfig.ts"
import { Provider, type ProviderPart } from "../../src/provider/Provider.ts"
import * as MemoryStore from "../../src/session/MemoryStore.ts"

const config = Layer.succeed(PlansConfig, {
  model: "x/y",
  allowsModel: () => false,
  maxPlans: 10,
  leaseTtl: Duration.seconds(15),
  shutdownGrace: Duration.seconds(30),
  firstTokenTimeout: Duration.seconds(120),
  idleTimeout: Duration.seconds(120),
  attemptTimeout: Duration.seconds(1800)
})
let turn = 0
const provider = Layer.succeed(Provider, {
  name: "x",
  stream: (req) => {
    turn++
    const parts: Array<ProviderPart> =
      req.tools.length > 0 && turn === 1
        ? [
            { _tag: "TextDelta", delta: "Let me " },
            { _tag: "ToolCall", id: "a", name: "bob_ask", arguments: '{"input":"hi"}' },
            { _tag: "Finished", reason: "tool_calls", inferred: false }
          ]
        : [
            { _tag: "TextDelta", delta: "Hello" },
            { _tag: "TextDelta", delta: " world" },
            {
              _tag: "UsageReported",
              usage: { input_tokens: 1, output_tokens: 2, cached_input_tokens: 0, reasoning_tokens: 0 }
            },
            { _tag: "Finished", reason: "stop", inferred: false }
          ]
    return Stream.fromIterable(parts)
  }
})
const peers = Layer.succeed(PeerClient, {
  discover: () => Effect.succeed([]),
  call: () => Effect.never
})
const layer = Plans.layer.pipe(Layer.provide([MemoryStore.layer, config, provider, peers]))

it.effect("smoke", () =>
  Effect.gen(function* () {
    const plans = yield* Plans
    const request = yield* Schema.decodeUnknownEffect(PlanRequest)({
      question: "q",
      session_id: "s",
      agents: [{ name: "bob", endpoint: "http://x/", skills: [{ id: "ask" }] }],
      preferences: { timeout_ms: 500 }
    })
    const { frames, plan_id } = yield* plans.start(anonymous, request)
    const fiber = yield* Effect.forkChild(Stream.runCollect(frames))
    yield* TestClock.adjust("1 seconds")
    const all = yield* Fiber.join(fiber)
    for (const f of all) process.stdout.write((typeof f === "string" ? f : `${f.seq} ${f.event} ${f.payload}`) + "\n")
    const plan = yield* plans.get(anonymous, plan_id)
    process.stdout.write(JSON.stringify(plan) + "\n")
    const two = yield* plans.start(anonymous, request)
    for (const f of yield* Stream.runCollect(two.frames))
      process.stdout.write((typeof f === "string" ? f : `${f.seq} ${f.event} ${f.payload}`) + "\n")
    assert.isTrue(true)
  }).pipe(Effect.scoped, Effect.provide(layer))
)
