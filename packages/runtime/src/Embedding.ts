import { layer } from "./tool/LocalTools.ts"

export { CallerName } from "@bowline/domain/caller/CallerName"
export { PlanRequest } from "@bowline/domain/plan/PlanRequest"
export { Plans } from "./plan/Plans.ts"

/**
 * What an app needs that runs plans in its own graph: who asks, what is asked, the plans, and tools that are functions of the app.
 *
 * @example
 * ```ts
 * import { CallerName, LocalTools, PlanRequest, Plans } from "@bowline/runtime"
 * import { Effect, Layer, Schema, Stream } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 *
 * const Tools = Toolkit.make(Tool.make("now", { description: "Says what time it is", success: Schema.String }))
 *
 * // It leaves open the model: a layer of a provider.
 * export const App = Plans.layerMemory({ model: "openai/gpt-5-mini" }).pipe(
 *   Layer.provide(LocalTools.layer(Tools)),
 *   Layer.provide(Tools.toLayer({ now: () => Effect.succeed("It is noon") }))
 * )
 *
 * export const answer = Effect.gen(function* () {
 *   const plans = yield* Plans
 *   const request = PlanRequest.make({ question: "What time is it?", session_id: "clock" })
 *   const { events } = yield* plans.start({ caller: CallerName.make("app"), request })
 *   return yield* Stream.runCollect(events)
 * })
 * ```
 */
export const LocalTools = { layer } as const
