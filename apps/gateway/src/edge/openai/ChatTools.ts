import { ClientTool, type PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Schema } from "effect"
import { given } from "./ChatSampling.ts"

const { description, input_schema, name } = ClientTool.fields

/** A function of the client. Its arguments are always checked, `strict` or not. */
const Callable = Schema.Struct({
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

const toolOf = ({ description, name, parameters }: typeof Callable.Type): ClientTool => ({
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

/** The tools of the client that its plan may call, and in what legs it answers. */
export const planned = ({
  parallel_tool_calls,
  tool_choice,
  tools
}: typeof Fields.Type): Pick<PlanRequest, "legs" | "tools"> =>
  (tools ?? []).length === 0 || tool_choice === "none"
    ? { tools: [] }
    : {
        tools: (tools ?? []).map((tool) => toolOf(tool.function)),
        legs: { parallel: parallel_tool_calls !== false }
      }
