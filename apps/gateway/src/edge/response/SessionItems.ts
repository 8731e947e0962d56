import type { FilePart, FileReference, Message, MessagePart } from "@bowline/domain/session/Message"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { fileLine } from "@bowline/domain/unstable/file/QuestionPart"
import { noPlan } from "@bowline/runtime/unstable/store/SessionStore"
import { callId } from "../leg/ClientResults.ts"
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

/** What a client has put into a conversation itself. */
interface Own extends Readonly<Record<string, unknown>> {
  readonly id: string
  readonly type: "function_call" | "function_call_output" | "reasoning"
}

export type SessionItem = SessionMessage | Own | Call

/** A message as the store has it. One that no plan has said may have no plan yet. */
export type Said = Pick<Message, "message_id" | "parts" | "role"> & Partial<Pick<Message, "plan_id">>

const fileItem = (part: FilePart) => {
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

const callIdOf = ({ call_id, task_id }: { readonly call_id?: string; readonly task_id: TaskId }): string =>
  call_id ?? callId(task_id)

/** A result as it came: its text is without the lines of the files that stand behind it. */
const outputOf = (content: string, files: ReadonlyArray<FileReference>): string | ReadonlyArray<object> => {
  if (files.length === 0) return content
  const lines = files.map(fileLine)
  const text = content
    .split("\n\n")
    .filter((one) => !lines.includes(one))
    .join("\n\n")
  return [...(text === "" ? [] : [{ type: "input_text", text }]), ...files.map(fileItem)]
}

const filesIn = (parts: ReadonlyArray<MessagePart>): ReadonlyArray<FileReference> =>
  parts.flatMap((part) => (part.type === "file" && "file_id" in part ? [part] : []))

/** A part of a message that a client has put there, as it came. `files` are those of the message. */
const brought = (part: MessagePart, id: string, files: ReadonlyArray<FileReference>): ReadonlyArray<Own> => {
  const status = "completed"
  switch (part.type) {
    case "tool_call": {
      const { input, raw_input = JSON.stringify(input), tool: name } = part
      return [{ id, type: "function_call", call_id: callIdOf(part), name, arguments: raw_input, status }]
    }
    case "tool_result":
      return [
        { id, type: "function_call_output", call_id: callIdOf(part), output: outputOf(part.content, files), status }
      ]
    case "reasoning": {
      const summary = part.text === "" ? [] : [{ type: "summary_text", text: part.text }]
      return [{ id, type: "reasoning", summary }]
    }
    default:
      return []
  }
}

/**
 * Messages of a session as items of Responses: texts as messages, calls of tools as `mcp_call` with what the model has read of their results. What a client has
 * put there is as it came. `labels` are the names of agents and MCP servers. Reasoning of plans is left out.
 */
export const itemsOf = (messages: ReadonlyArray<Said>, labels: Labels): ReadonlyArray<SessionItem> => {
  const results = new Map(
    messages.flatMap(({ parts }) =>
      parts.flatMap((part) => (part.type === "tool_result" ? [[part.task_id, part] as const] : []))
    )
  )
  return messages.flatMap(({ message_id: id, parts, plan_id = noPlan, role }) => {
    const own = plan_id === noPlan ? parts.flatMap((part) => brought(part, id, filesIn(parts))) : []
    if (own.length > 0) return own
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
