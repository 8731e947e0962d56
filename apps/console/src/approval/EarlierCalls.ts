import type { Json, Message } from "@bowline/client"

/** A call of the same tool that was made before in the session. */
export interface EarlierCall {
  readonly planId: string
  readonly taskId: string
  readonly input: Json
  /** Null where the history has no result of it yet. */
  readonly state: string | null
  readonly at: number
}

/** The calls of a tool in a history, the newest first, but for the one that waits. */
export const earlierCalls = (
  messages: ReadonlyArray<Message>,
  { taskId, tool }: { readonly taskId: string; readonly tool: string }
): ReadonlyArray<EarlierCall> => {
  const states = new Map(
    messages.flatMap(({ parts }) =>
      parts.flatMap((part) => (part.type === "tool_result" ? [[part.task_id, part.state] as const] : []))
    )
  )
  return messages
    .flatMap(({ created_at, parts, plan_id: planId }) =>
      parts.flatMap((part) =>
        part.type === "tool_call" && part.tool === tool && part.task_id !== taskId
          ? [
              {
                planId,
                taskId: part.task_id,
                input: part.raw_input ?? part.input,
                state: states.get(part.task_id) ?? null,
                at: Date.parse(created_at)
              }
            ]
          : []
      )
    )
    .toReversed()
}
