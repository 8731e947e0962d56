import type { ToolCallPart } from "@bowline/domain/session/Message"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { Result, type Schema } from "effect"
import { distance } from "fastest-levenshtein"
import type { Tool, ToolInput } from "../tool/Tool.ts"
import * as ToolName from "../tool/ToolName.ts"
import * as ToolSchema from "../tool/ToolSchema.ts"
import type { ToolCall } from "../provider/Provider.ts"
import type { StoredTask } from "../store/PlanStore.ts"

/** A call before it is made: what it will be, or why it will not. */
export type Prepared = { readonly part: ToolCallPart } & (
  | { readonly _tag: "Ready"; readonly tool: Tool; readonly input: ToolInput }
  /** Another process has started it: its peer has it, or it may be made once more. */
  | { readonly _tag: "Begun"; readonly tool: Tool; readonly input: ToolInput; readonly task: StoredTask }
  | {
      readonly _tag: "Refused"
      readonly tool: Tool | undefined
      readonly state: "invalid" | "rejected"
      readonly input: Schema.Json
      readonly message: string
    }
)

const unknownTool = (name: string, tools: ReadonlyMap<string, Tool>): string => {
  const start = name.slice(0, 200)
  const near = Array.from(tools.keys())
    .sort((a, b) => distance(start, a) - distance(start, b))
    .slice(0, 3)
  return `There is no tool ${JSON.stringify(start)}${near.length === 0 ? "" : `. The nearest: ${near.join(", ")}`}`
}

/** Looks up and checks the calls of a step, of which at most `budget` may be made. */
export const prepare = (
  calls: ReadonlyArray<Pick<ToolCall, "name" | "arguments">>,
  tools: ReadonlyMap<string, Tool>,
  budget: number,
  nextId: (index: number) => string
): ReadonlyArray<Prepared> =>
  calls.map((call, index): Prepared => {
    const tool = tools.get(call.name)
    const input = ToolSchema.parseInput(tool?.inputSchema ?? {}, call.arguments)
    const isObject = Result.isSuccess(input) || typeof input.failure.input !== "string"
    const shown = Result.isSuccess(input) ? input.success : input.failure.input
    const part: ToolCallPart = {
      type: "tool_call",
      task_id: TaskId.make(nextId(index)),
      tool: ToolName.legal(call.name),
      input: typeof shown === "string" ? {} : shown,
      ...(isObject ? {} : { raw_input: call.arguments })
    }
    const refused = (state: "invalid" | "rejected", message: string): Prepared => ({
      _tag: "Refused",
      part,
      tool,
      state,
      input: shown,
      message
    })
    if (tool === undefined) return refused("invalid", unknownTool(call.name, tools))
    if (Result.isFailure(input)) return refused("invalid", input.failure.message)
    if (index >= budget)
      return refused("rejected", "No more tool calls may be made in this plan. Answer with what you have.")
    return { _tag: "Ready", part, tool, input: input.success }
  })

/** What is left to do of the last step that was answered, in the process that goes on with it. */
export interface Left {
  /** Those that have no result. What has begun is not started again. */
  readonly calls: ReadonlyArray<Prepared>
  /** Calls of the plan that count, these among them. */
  readonly counted: number
}

/** `parts` are all calls of the step, `tasks` all of the plan, of which at most `max` may be made. */
export const left = (
  parts: ReadonlyArray<ToolCallPart>,
  tasks: ReadonlyArray<StoredTask>,
  tools: ReadonlyMap<string, Tool>,
  max: number
): Left => {
  const ids = new Set(parts.map(({ task_id }) => task_id))
  // Each call of the steps before has its row, those too that were refused since there were too many.
  const before = Math.min(tasks.filter(({ task_id }) => !ids.has(task_id)).length, max)
  const budget = max - before
  const made = parts.map(({ input, raw_input, tool }) => ({
    name: tool,
    arguments: raw_input ?? JSON.stringify(input)
  }))
  const calls = prepare(made, tools, budget, (index) => parts[index]?.task_id ?? "").flatMap((prepared) => {
    const { part, tool } = prepared
    const task = tasks.find(({ task_id }) => task_id === part.task_id)
    if (task === undefined) return [prepared]
    if (task.state !== "running" || tool === undefined) return []
    return [{ _tag: "Begun" as const, part, tool, input: part.input, task }]
  })
  return { calls, counted: before + Math.min(parts.length, budget) }
}
