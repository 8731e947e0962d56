import type { Message, MessagePart } from "@bowline/domain/session/Message"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { type Call, callItem, partOf } from "./ResponseItems.ts"

type Result = Extract<MessagePart, { readonly type: "tool_result" }>

type Labels = ReadonlyArray<string>

export interface SessionMessage {
  readonly id: string
  readonly type: "message"
  readonly role: "user" | "assistant"
  readonly status: "completed"
  readonly content: ReadonlyArray<object>
}

type SessionItem = SessionMessage | Call

const fileItem = (part: Extract<MessagePart, { readonly type: "file" }>) => {
  const file_id = "file_id" in part ? part.file_id : null
  return part.media_type.startsWith("image/")
    ? { type: "input_image", file_id, image_url: null, detail: "auto" }
    : { type: "input_file", file_id, ...(part.name !== undefined && { filename: part.name }) }
}

const said = (part: MessagePart): ReadonlyArray<object> => {
  if (part.type === "text") return part.partial === true ? [] : [{ type: "input_text", text: part.text }]
  return part.type === "file" ? [fileItem(part)] : []
}

const answered = (
  part: MessagePart,
  id: string,
  resultOf: (task: TaskId) => Result | undefined,
  labels: Labels
): ReadonlyArray<SessionItem> => {
  if (part.type === "text" && part.partial !== true) {
    const content = [partOf({ kind: "message", text: part.text })]
    return [{ id, type: "message", role: "assistant", status: "completed", content }]
  }
  return part.type === "tool_call" ? [callItem(part, resultOf(part.task_id), labels)] : []
}

/**
 * Messages of a session as items of Responses: texts as messages, calls of tools as `mcp_call` with what the model has read of their results. `labels`
 * are the names of agents and MCP servers. Reasoning is left out.
 */
export const itemsOf = (
  messages: ReadonlyArray<Pick<Message, "message_id" | "parts" | "role">>,
  labels: Labels
): ReadonlyArray<SessionItem> => {
  const results = new Map(
    messages.flatMap(({ parts }) =>
      parts.flatMap((part) => (part.type === "tool_result" ? [[part.task_id, part] as const] : []))
    )
  )
  return messages.flatMap(({ message_id: id, parts, role }) => {
    if (role === "user") {
      return [{ id, type: "message", role, status: "completed", content: parts.flatMap(said) }]
    }
    let texts = 0
    return parts.flatMap((part) => {
      const own = part.type === "text" && texts++ > 0 ? `${id}_${texts}` : id
      return answered(part, own, (task) => results.get(task), labels)
    })
  })
}
