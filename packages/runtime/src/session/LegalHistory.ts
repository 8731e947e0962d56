import type { Message, MessagePart, ToolCallPart, ToolResultPart } from "@bowline/domain/session/Message"
import type { TaskId } from "@bowline/domain/tool/TaskId"

export type Entry = Pick<Message, "role" | "parts">

/** What stands in for the result of a call that was interrupted. */
export const unknownEffect = "The call was interrupted. Whether it had an effect is unknown."

const isShown = (part: MessagePart): boolean => part.type !== "text" || (part.text !== "" && part.partial !== true)

const missing = (call: ToolCallPart): ToolResultPart => ({
  type: "tool_result",
  task_id: call.task_id,
  state: "interrupted",
  content: unknownEffect
})

/**
 * A history that every provider takes: each call has its one result directly behind it (one that is missing says
 * `interrupted`; orphans and duplicates are gone), files only of the user, no partial text, no empty message. What is stored
 * stays as it is.
 */
export const legalHistory = (messages: ReadonlyArray<Entry>): ReadonlyArray<Entry> => {
  const results = new Map<TaskId, ToolResultPart>()
  for (const part of messages.flatMap((message) => message.parts)) {
    if (part.type === "tool_result" && !results.has(part.task_id)) results.set(part.task_id, part)
  }
  const called = new Set<TaskId>()
  return messages.flatMap((message) => {
    if (message.role === "tool") return []
    const parts = message.parts.filter((part) => {
      if (part.type === "tool_result") return false
      if (part.type === "file") return message.role === "user"
      if (part.type !== "tool_call") return isShown(part)
      if (message.role !== "assistant" || called.has(part.task_id)) return false
      called.add(part.task_id)
      return true
    })
    if (parts.length === 0) return []
    const answers = parts
      .filter((part) => part.type === "tool_call")
      .map((call) => results.get(call.task_id) ?? missing(call))
    const own: Entry = { role: message.role, parts }
    return answers.length === 0 ? [own] : [own, { role: "tool", parts: answers }]
  })
}

/** The same without calls or thoughts: calls, and what came of them, are told in text. For a provider that refuses their order. */
export const toldHistory = (messages: ReadonlyArray<Entry>): ReadonlyArray<Entry> =>
  messages.map(({ role, parts }) => ({
    role: role === "tool" ? "user" : role,
    parts: parts
      .filter(({ type }) => type !== "reasoning")
      .map((part): MessagePart => {
        if (part.type === "tool_call")
          return { type: "text", text: `Called ${part.tool}: ${JSON.stringify(part.input)}` }
        return part.type === "tool_result" ? { type: "text", text: part.content } : part
      })
  }))
