import type { ToolCallPart } from "@bowline/domain/session/Message"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { Effect, Result, type Schema } from "effect"
import type * as InputValidator from "../tool/InputValidator.ts"
import type { Tool, ToolInput, ToolResult } from "../tool/Tool.ts"
import * as ToolName from "../tool/ToolName.ts"
import type { ToolCall } from "../provider/Provider.ts"
import type { StoredTask } from "../store/PlanStore.ts"

/** A call before it is made: what to dispatch, or why it is refused. The model reads a `note` behind the result. */
export type Prepared = { readonly part: ToolCallPart } & (
  | {
      readonly _tag: "Ready"
      readonly tool: Tool
      readonly input: ToolInput
      readonly note?: string
      readonly effectKey?: string
      /** Somebody has decided that it is made, though this earlier call may have done the same. */
      readonly follows?: TaskId
      /** It is not made: an earlier call has done the same, as its peer says, and this is what that one returned. */
      readonly repeats?: ToolResult
    }
  /** Another process has started it. Its peer has the task, or the call may be made again. */
  | {
      readonly _tag: "Begun"
      readonly tool: Tool
      readonly input: ToolInput
      readonly task: StoredTask
      readonly note?: string
      readonly effectKey?: string
    }
  | {
      readonly _tag: "Refused"
      readonly tool: Tool | undefined
      readonly state: "invalid" | "rejected"
      readonly input: Schema.Json
      readonly message: string
      /** The code of its error, if that is another one than its state. */
      readonly code?: "effect_unknown"
    }
)

/** Checks arguments for the plan's caller: `InputValidator.parse`. */
export type ParseInput = (
  tool: Tool | undefined,
  text: string
) => Effect.Effect<Result.Result<ToolInput, InputValidator.WrongInput>>

/** What calls are checked with. */
export interface Lookup {
  readonly tools: ReadonlyMap<string, Tool>
  /** Tools that are not offered, but that an earlier process may have offered. */
  readonly withheld?: ReadonlyMap<string, Tool>
  readonly parse: ParseInput
}

type Call = Pick<ToolCall, "name" | "arguments">

/** Looks up and checks a call. `isSpent`: the plan has already made as many calls as it may. */
const prepareOne = Effect.fnUntraced(function* (
  { arguments: text, name }: Call,
  { parse, tools, withheld }: Lookup,
  task_id: string,
  isSpent: boolean
): Effect.fn.Return<Prepared> {
  const tool = tools.get(name) ?? withheld?.get(name)
  const input = yield* parse(tool, text)
  const shown = Result.isSuccess(input) ? input.success : input.failure.input
  const part: ToolCallPart = {
    type: "tool_call",
    task_id: TaskId.make(task_id),
    tool: ToolName.legal(name),
    ...(typeof shown === "string" ? { input: {}, raw_input: text } : { input: shown })
  }
  const refused = (state: "invalid" | "rejected", message: string): Prepared => ({
    _tag: "Refused",
    part,
    tool,
    state,
    input: shown,
    message
  })
  if (tool === undefined) return refused("invalid", `There is no tool ${ToolName.withNearest(name, tools.keys())}`)
  if (Result.isFailure(input)) return refused("invalid", input.failure.message)
  if (isSpent) return refused("rejected", "No more tool calls may be made in this plan. Answer with what you have.")
  return { _tag: "Ready", part, tool, input: input.success }
})

/** Looks up and checks the calls of a step, of which at most `budget` may be made. */
export const prepare = (
  calls: ReadonlyArray<Call>,
  lookup: Lookup,
  budget: number,
  nextId: () => string
): Effect.Effect<ReadonlyArray<Prepared>> =>
  Effect.forEach(calls, (call, index) => prepareOne(call, lookup, nextId(), index >= budget))

/**
 * The calls of the step that have no result. One that has begun is not started again. `parts` are all calls of the step, `tasks` all tasks of
 * the plan; `counted` is how many calls the plan could make with those of this step.
 */
export const remainingCalls = Effect.fnUntraced(function* (
  parts: ReadonlyArray<ToolCallPart>,
  tasks: ReadonlyArray<StoredTask>,
  lookup: Lookup,
  counted: number
): Effect.fn.Return<ReadonlyArray<Prepared>> {
  const { tools, withheld } = lookup
  const ids = new Set(parts.map(({ task_id }) => task_id))
  // Each call of the steps before has its row. Calls beyond a budget are refused in the last step that has tools.
  const budget = counted - tasks.filter(({ task_id }) => !ids.has(task_id)).length
  const calls: Array<Prepared> = []
  for (const [index, part] of parts.entries()) {
    const tool = tools.get(part.tool) ?? withheld?.get(part.tool)
    const task = tasks.find(({ task_id }) => task_id === part.task_id)
    if (task === undefined) {
      const call = { name: part.tool, arguments: part.raw_input ?? JSON.stringify(part.input) }
      calls.push(yield* prepareOne(call, lookup, part.task_id, index >= budget))
    } else if (task.state === "running" && tool !== undefined) {
      calls.push({ _tag: "Begun", part, tool, input: part.input, task })
    }
  }
  return calls
})
