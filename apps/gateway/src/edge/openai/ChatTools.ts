import { ClientTool, type PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Schema } from "effect"
import { given } from "./ChatSampling.ts"

const { description, input_schema, name } = ClientTool.fields

/** A function of the client. Its arguments are always checked, `strict` or not. */
export const Callable = Schema.Struct({
  name,
  description: given(description.schema),
  parameters: given(input_schema)
})

const onlyFunctions =
  'Expected "function": the planner calls its other tools itself. Name agents and MCP servers in a preset, or in bowline'

const Tools = Schema.Array(
  Schema.Struct({
    type: Schema.tag("function").annotate({ message: onlyFunctions }),
    function: Callable
  })
).check(Schema.isMaxLength(128))

const anything = { type: "object" }

export const toolOf = ({ description, name, parameters }: typeof Callable.Type): ClientTool => ({
  name,
  ...(typeof description === "string" && { description }),
  input_schema: parameters ?? anything
})

/** The fields of a body that say which tools the client has, and how they are called. */
export const fields = {
  tools: given(Tools),
  tool_choice: given(Schema.Unknown),
  parallel_tool_calls: given(Schema.Boolean)
}
const Fields = Schema.Struct(fields)

/** The tools that a plan may call of the client, and in what legs it answers. */
export const legs = (
  tools: ReadonlyArray<ClientTool>,
  { parallel_tool_calls, tool_choice }: Pick<typeof Fields.Type, "parallel_tool_calls" | "tool_choice">
): Pick<PlanRequest, "legs" | "tools"> =>
  tools.length === 0 || tool_choice === "none"
    ? { tools: [] }
    : { tools, legs: { parallel: parallel_tool_calls !== false } }

/** The tools that a body gives to a plan that it goes on with: undefined if it says nothing of them. */
export const toolsNow = (
  { tool_choice, tools }: { readonly tool_choice?: unknown; readonly tools?: unknown },
  { tools: own }: Pick<PlanRequest, "tools">
): ReadonlyArray<ClientTool> | undefined => (tools == null && tool_choice !== "none" ? undefined : own)

/** The same of a body of Chat Completions. */
export const planned = ({ tools, ...rest }: typeof Fields.Type): Pick<PlanRequest, "legs" | "tools"> =>
  legs(
    (tools ?? []).map((tool) => toolOf(tool.function)),
    rest
  )
