import { Effect } from "effect"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import type { Tool, ToolInput, ToolResult } from "../tool/Tool.ts"
import * as GenAi from "./GenAi.ts"
import * as Spans from "./Spans.ts"

/** The call to observe. */
interface Subject {
  readonly tool: Tool
  readonly input: ToolInput
  readonly taskId: TaskId
}

const isRemote = ({ kind }: Tool): boolean => kind === "peer" || kind === "mcp"

/** Gives the call of a tool its span. A call that does not complete is an error, by its code. */
export const observe = (call: Effect.Effect<ToolResult>, { input, taskId, tool }: Subject): Effect.Effect<ToolResult> =>
  Spans.use(
    `execute_tool ${tool.name}`,
    (content) => ({
      kind: isRemote(tool) ? "client" : "internal",
      attributes: {
        [GenAi.operation]: "execute_tool",
        [GenAi.tool]: tool.name,
        [GenAi.toolCall]: taskId,
        [GenAi.toolKind]: tool.kind,
        ...(tool.agent !== null && { [GenAi.peer]: tool.agent }),
        ...(content && { [GenAi.toolArguments]: JSON.stringify(input) })
      }
    }),
    (span) =>
      span === undefined
        ? call
        : Effect.tap(call, ({ state, content, error }) =>
            Effect.flatMap(Spans.Content, (isShown) => {
              span.attribute(GenAi.taskState, state)
              if (isShown) span.attribute(GenAi.toolResult, content)
              return state === "completed" ? Effect.void : Spans.fail(span, error?.code ?? state)
            })
          )
  )
