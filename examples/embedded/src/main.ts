import { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { PeerClient } from "@bowline/runtime/peer/PeerClient"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { Effect, Layer, Schema, Stream } from "effect"
import assert from "node:assert/strict"
import { Orders } from "./Orders.ts"
import * as OrderTools from "./OrderTools.ts"

const Config = PlansConfig.layer({ model: "scripted/clerk" })

// Stands in for a real provider: asks for the order, then says what it has read.
const Model = ScriptedProvider.layer([
  [callTool("find_order", { order_id: 7 })],
  [say("Order 7 is on its way, "), say("and arrives on Friday.")]
])

// This app has no remote agents. One that has brings `A2aPeerClient.layer`.
const NoPeers = Layer.succeed(PeerClient, {
  discover: () => Effect.succeed({ skills: [], did: null }),
  peers: Effect.succeed([]),
  call: () => Effect.die("There are no peers"),
  cancel: () => Effect.void
})

const App = Plans.layer.pipe(
  Layer.provide(OrderTools.layer),
  Layer.provide(Orders.layer),
  Layer.provide([MemoryStore.layer, Config, NoPeers]),
  Layer.provide(CredentialPool.layerProvider),
  Layer.provideMerge(Model)
)

const clerk = CallerName.make("clerk")
const decodeRequest = Schema.decodeUnknownEffect(PlanRequest)
const decodeEvent = Schema.decodeUnknownEffect(PlanEvent)

const program = Effect.gen(function* () {
  const plans = yield* Plans
  const request = yield* decodeRequest({ question: "Where is my order 7?", preferences: { timeout_ms: 10_000 } })

  // The scope is the connection: a caller that leaves before the end takes the plan with it.
  const { plan_id, frames } = yield* plans.start(clerk, request)
  const events = yield* frames.pipe(
    Stream.filter((item) => typeof item === "object"),
    Stream.mapEffect(({ event, payload }) => decodeEvent({ event, data: JSON.parse(payload) as unknown })),
    Stream.tap(({ event, data }) => Effect.sync(() => console.log(event, JSON.stringify(data)))),
    Stream.runCollect
  )

  const started = events.find(({ event }) => event === "task.started")
  assert.partialDeepStrictEqual(started?.data, { tool: "find_order", kind: "local", input: { order_id: 7 } })

  const finished = events.find(({ event }) => event === "task.finished")
  assert.partialDeepStrictEqual(finished?.data, { state: "completed" })

  const { asked } = yield* ScriptedProvider
  const [, second] = yield* asked.all
  const result = second?.messages.findLast(({ role }) => role === "tool")
  assert.partialDeepStrictEqual(result, { content: '{"order_id":7,"status":"on its way","arrives":"Friday"}' })

  const plan = yield* plans.get(clerk, plan_id)
  assert.equal(plan.state, "completed")
  assert.equal(plan.final?.text, "Order 7 is on its way, and arrives on Friday.")
  assert.equal(plan.tool_calls, 1)
})

await program.pipe(Effect.scoped, Effect.provide(App), Effect.runPromise)
