import { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Plans } from "@bowline/runtime/plan/Plans"
import * as RecipeFolder from "@bowline/runtime/prompt/RecipeFolder"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { Effect, Layer, Stream } from "effect"
import assert from "node:assert/strict"
import { join } from "node:path"

// Stands in for a real provider: loads the recipe that fits, then follows it.
const Model = ScriptedProvider.layer([
  [callTool("load_recipe", { name: "refund" })],
  [say("You get the whole price back. It takes 5 working days.")]
])

const folder = join(import.meta.dirname, "../recipes")

const App = Plans.layerMemory({ model: "scripted/clerk" }).pipe(
  Layer.provide(RecipeFolder.layer({ folder, isOptional: false })),
  Layer.provideMerge(Model)
)

const program = Effect.gen(function* () {
  const plans = yield* Plans
  const request = PlanRequest.make({ question: "My order came last week, and I want my money back." })
  const { events } = yield* plans.start({ caller: CallerName.make("clerk"), request })
  const seen = yield* events.pipe(
    Stream.tap(({ event, data }) => Effect.sync(() => console.log(event, JSON.stringify(data)))),
    Stream.runCollect
  )

  const started = seen.find(({ event }) => event === "task.started")
  assert.partialDeepStrictEqual(started?.data, { tool: "load_recipe", kind: "recipe", input: { name: "refund" } })
  const final = seen.find(({ event }) => event === "final")
  assert.partialDeepStrictEqual(final?.data, { text: "You get the whole price back. It takes 5 working days." })

  const { asked } = yield* ScriptedProvider
  const [first, second] = yield* asked.all
  assert.match(first?.system ?? "", /- complaint: How to answer .*\n- refund: How to give a customer money back/)
  assert.doesNotMatch(first?.system ?? "", /voucher/)
  const result = second?.messages.findLast(({ role }) => role === "tool")
  assert.match(result?.role === "tool" ? result.content : "", /^# Refund\n[^]*voucher/)
})

await program.pipe(Effect.scoped, Effect.provide(App), Effect.runPromise)
