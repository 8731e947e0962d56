import { CallerName, PlanRequest, Plans } from "@bowline/runtime"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { Effect, Layer, Stream } from "effect"
import assert from "node:assert/strict"
import { Orders } from "./Orders.ts"
import * as OrderTools from "./OrderTools.ts"

// Stands in for a real provider: asks for the order, then says what it has read.
const Model = ScriptedProvider.layer([
  [callTool("find_order", { order_id: 7 })],
  [say("Order 7 is on its way, "), say("and arrives on Friday.")]
])

const App = Plans.layerMemory({ model: "scripted/clerk" }).pipe(
  Layer.provide(OrderTools.layer),
  Layer.provide(Orders.layer),
  Layer.provideMerge(Model)
)

const caller = CallerName.make("clerk")

const program = Effect.gen(function* () {
  const plans = yield* Plans
  const request = PlanRequest.make({
    question: "Where is my order 7?",
    preferences: { timeout_ms: 10_000 }
  })

  // The scope is the connection: when it closes before the end, the plan is aborted.
  const { plan_id, events } = yield* plans.start({ caller, request })
  const seen = yield* events.pipe(
    Stream.tap(({ event, data }) => Effect.sync(() => console.log(event, JSON.stringify(data)))),
    Stream.runCollect
  )

  const started = seen.find(({ event }) => event === "task.started")
  assert.partialDeepStrictEqual(started?.data, { tool: "find_order", kind: "local", input: { order_id: 7 } })

  const finished = seen.find(({ event }) => event === "task.finished")
  assert.partialDeepStrictEqual(finished?.data, { state: "completed" })

  const { asked } = yield* ScriptedProvider
  const [, second] = yield* asked.all
  const result = second?.messages.findLast(({ role }) => role === "tool")
  assert.partialDeepStrictEqual(result, { content: '{"order_id":7,"status":"on its way","arrives":"Friday"}' })

  const plan = yield* plans.get(caller, plan_id)
  assert.equal(plan.state, "completed")
  assert.equal(plan.final?.text, "Order 7 is on its way, and arrives on Friday.")
  assert.equal(plan.tool_calls, 1)

  const again = yield* Stream.runCollect(plans.events(caller, plan_id))
  assert.deepEqual(again, seen)
})

await program.pipe(Effect.scoped, Effect.provide(App), Effect.runPromise)
