import type { ToolEffect } from "@bowline/domain/tool/TaskState"
import { Cause, Context, Effect, Layer, Option, Schema, Stream } from "effect"
import { Tool as AiTool, Toolkit } from "effect/ai"
import type { JsonSchema, Tool, ToolResult } from "./Tool.ts"

export type { Tool }

/** Tools that the app itself brings. None, unless it says so. */
export const LocalTools = Context.Reference<ReadonlyArray<Tool>>("@bowline/runtime/tool/LocalTools", {
  defaultValue: () => []
})

/**
 * Annotates a tool of a toolkit with what a call of it does that must not be done twice. None, unless the tool says so.
 *
 * @example
 * ```ts
 * import * as LocalTools from "@bowline/runtime/tool/LocalTools"
 * import { Schema } from "effect"
 * import { Tool } from "effect/ai"
 *
 * // The same order is paid once, whichever plan of the caller asks for it.
 * export const PayOrder = Tool.make("pay_order", {
 *   description: "Pays an order",
 *   parameters: Schema.Struct({ order_id: Schema.Int, amount: Schema.Number }),
 *   success: Schema.String
 * }).annotate(LocalTools.Effects, { key: ["/order_id"], scope: "caller", keep: "90d" })
 * ```
 */
export const Effects = Context.Reference<ToolEffect | undefined>("@bowline/runtime/tool/LocalTools/Effects", {
  defaultValue: () => undefined
})

const asText = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""))

/** `origin`: what has failed. After a defect, or with a result that its schema does not take, the handler may have done what it was to do. */
const failed = (message: string, origin: AiTool.FailureOrigin): ToolResult => ({
  state: "failed",
  content: message,
  ...(origin === "result" && { isBroken: true }),
  error: { code: "tool_failed", message }
})

/** The toolkit gets the encoded parameters and decodes them itself. Parameters that do not decode fail in the toolkit. */
const isEncoded = <A>(_input: unknown): _input is A => true

const jsonSchema = (tool: AiTool.Any): JsonSchema => decodeSchema(AiTool.getJsonSchema(tool))
const decodeSchema = Schema.decodeUnknownSync(Schema.Record(Schema.String, Schema.Json))

const messageOf = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  return error instanceof Error && !Cause.hasInterruptsOnly(cause) ? error.message : "The tool failed"
}

const fromTool = <Tools extends Record<string, AiTool.Any>>(
  toolkit: Toolkit.WithHandler<Tools>,
  name: string,
  tool: Tools[string],
  context: Context.Context<AiTool.HandlerServices<Tools[string]>>
): Tool => ({
  name,
  kind: "local",
  agent: null,
  endpoint: null,
  skill: null,
  description: tool.description ?? name,
  inputSchema: jsonSchema(tool),
  timeoutMs: undefined,
  isIdempotent: Context.get(tool.annotations, AiTool.Idempotent),
  isPolling: false,
  effect: Context.get(tool.annotations, Effects),
  approval: undefined,
  identify: Effect.succeed(null),
  call: ({ input, taskId }) =>
    Effect.gen(function* () {
      if (!isEncoded<AiTool.ParametersEncoded<Tools[string]>>(input))
        return failed("The input is not an object", "parameters")
      const results = yield* toolkit.handle(name, input, taskId)
      const last = yield* Stream.runLast(results)
      if (Option.isNone(last)) return failed("The tool gave no result", "result")
      const text = asText(last.value.encodedResult)
      const { failureOrigin = "result", isFailure } = last.value
      return isFailure ? failed(text, failureOrigin) : { state: "completed" as const, content: text }
    }).pipe(
      Effect.catchCause((cause) => {
        const origin = Context.get(Cause.annotations(cause), Toolkit.FailureOrigin)
        return Effect.as(Effect.logWarning("local_tool_failed", cause), failed(messageOf(cause), origin))
      }),
      Effect.provideContext(context)
    )
})

/**
 * The tools of an Effect `Toolkit`, run by its handlers.
 *
 * @example
 * ```ts
 * import * as LocalTools from "@bowline/runtime/tool/LocalTools"
 * import { Effect, Layer, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 *
 * const FindOrder = Tool.make("find_order", {
 *   description: "Says where an order is",
 *   parameters: Schema.Struct({ order_id: Schema.Int }),
 *   success: Schema.String
 * })
 * const Orders = Toolkit.make(FindOrder)
 * const handlers = Orders.toLayer({ find_order: ({ order_id }) => Effect.succeed(`Order ${order_id} is on its way`) })
 *
 * // For `Plans`. Tools that are not of a toolkit are given as `LocalTools.LocalTools`.
 * export const Tools = LocalTools.layer(Orders).pipe(Layer.provide(handlers))
 * export const count = Effect.map(LocalTools.LocalTools, (tools) => tools.length)
 * ```
 */
export const layer = <Tools extends Record<string, AiTool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>
): Layer.Layer<never, never, AiTool.HandlersFor<Tools> | AiTool.HandlerServices<Tools[string]>> =>
  Layer.effect(
    LocalTools,
    Effect.gen(function* () {
      const handlers = yield* toolkit
      const context = yield* Effect.context<AiTool.HandlerServices<Tools[string]>>()
      const tools: Array<Tool> = []
      for (const name in handlers.tools) tools.push(fromTool(handlers, name, handlers.tools[name], context))
      return tools
    })
  )
