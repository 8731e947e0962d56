import type { FilePart, Message, MessagePart, ToolCallPart, ToolResultPart } from "@bowline/domain/session/Message"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import type { Schema } from "effect"
import * as ToolName from "../tool/ToolName.ts"
import { isImage, isPdf } from "./FileText.ts"

/** A message as providers get it: its role and its parts. */
export type Entry = Pick<Message, "role" | "parts">

/** The result of an interrupted call. */
export const unknownEffect = "The call was interrupted. Whether it had an effect is unknown."

/** The result of a call whose plan has ended first, while it waited for its turn or for an approval. */
export const notMade = "The plan ended before the call was made."

/** The first message of a history that does not begin with the user: it was cut between two steps. */
export const leftOut = "[The beginning of the conversation is left out here.]"

const missing = (call: ToolCallPart): ToolResultPart => ({
  type: "tool_result",
  task_id: call.task_id,
  state: "interrupted",
  content: unknownEffect
})

/** Whether the part has content for the model. */
const says = (part: MessagePart): boolean =>
  part.type === "text" ? part.text.trim() !== "" : part.type === "tool_call" || part.type === "file"

/** The parts up to the last one with content: providers refuse a message that ends with reasoning. */
const withoutTail = (parts: ReadonlyArray<MessagePart>): ReadonlyArray<MessagePart> =>
  parts.slice(0, parts.findLastIndex(says) + 1)

/** Every provider refuses a history that does not begin with the user. */
const begunByUser = (messages: ReadonlyArray<Entry>): ReadonlyArray<Entry> =>
  messages[0]?.role === "user" ? messages : [{ role: "user", parts: [{ type: "text", text: leftOut }] }, ...messages]

const wellFormed = (value: Schema.Json): Schema.Json => {
  if (typeof value === "string") return value.toWellFormed()
  if (typeof value !== "object" || value === null) return value
  return isList(value) ? value.map(wellFormed) : wellFormedObject(value)
}
const isList = (value: Schema.Json): value is Schema.JsonArray => Array.isArray(value)
const wellFormedObject = (input: Schema.JsonObject): Schema.JsonObject =>
  Object.fromEntries(Object.entries(input).map(([key, value]) => [key.toWellFormed(), wellFormed(value)]))

/** Some providers refuse half a surrogate pair, which a cut leaves, and all of them an illegal tool name. */
const legalPart = (part: MessagePart): MessagePart => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return { ...part, text: part.text.toWellFormed() }
    case "tool_call":
      return { ...part, tool: ToolName.legal(part.tool), input: wellFormedObject(part.input) }
    case "tool_result":
      return { ...part, content: part.content.toWellFormed() }
    case "file": {
      const { name } = part
      const file = "url" in part ? { ...part, url: part.url.toWellFormed() } : part
      return name === undefined ? file : { ...file, name: name.toWellFormed() }
    }
  }
}

/** The images and PDFs of each result, which stand behind it. What else a tool has given is in the text of its result. */
const filesOfResults = (messages: ReadonlyArray<Entry>): ReadonlyMap<TaskId, ReadonlyArray<FilePart>> => {
  const files = new Map<TaskId, Array<FilePart>>()
  for (const { parts, role } of messages) {
    let task: TaskId | undefined
    for (const part of role === "tool" ? parts : []) {
      if (part.type === "tool_result") task = part.task_id
      else if (part.type === "file" && task !== undefined && (isImage(part) || isPdf(part))) {
        files.set(task, [...(files.get(task) ?? []), part])
      }
    }
  }
  return files
}

/**
 * A history that every provider accepts. The first message is the user's. Each call has its one result directly after it: a missing
 * result becomes `interrupted`, a result without a call and a second result are dropped. Files stand in messages of the user only: the images and
 * PDFs of results in one behind them, since not every wire has them in a result. Reasoning stands only in front of the text or call that it led to. Partial text and empty messages are dropped. The stored history does
 * not change.
 */
export const legalHistory = (messages: ReadonlyArray<Entry>): ReadonlyArray<Entry> => {
  const results = new Map<TaskId, ToolResultPart>()
  for (const part of messages.flatMap((message) => message.parts)) {
    if (part.type === "tool_result" && !results.has(part.task_id)) results.set(part.task_id, part)
  }
  const files = filesOfResults(messages)
  const called = new Set<TaskId>()
  const isOf = (role: "user" | "assistant", part: MessagePart): boolean => {
    switch (part.type) {
      case "text":
        return part.text !== "" && part.partial !== true
      case "file":
        return role === "user"
      case "reasoning":
        return role === "assistant"
      case "tool_result":
        return false
      case "tool_call":
        if (role === "user" || called.has(part.task_id)) return false
        called.add(part.task_id)
        return true
    }
  }
  const legal = messages.flatMap(({ role, parts }): ReadonlyArray<Entry> => {
    if (role === "tool") return []
    const own = withoutTail(parts.filter((part) => isOf(role, part)))
    if (own.length === 0) return []
    const answers = own.flatMap((part) =>
      part.type === "tool_call" ? [results.get(part.task_id) ?? missing(part)] : []
    )
    const message: Entry = { role, parts: own.map(legalPart) }
    if (answers.length === 0) return [message]
    const shown = answers.flatMap(({ task_id }) => files.get(task_id) ?? [])
    const behind: ReadonlyArray<Entry> = shown.length === 0 ? [] : [{ role: "user", parts: shown.map(legalPart) }]
    return [message, { role: "tool", parts: answers.map(legalPart) }, ...behind]
  })
  return begunByUser(legal)
}

/** The history without reasoning, and with its calls and results as plain text: for a provider that refuses their order. */
export const toldHistory = (messages: ReadonlyArray<Entry>): ReadonlyArray<Entry> =>
  messages.flatMap(({ role, parts }): ReadonlyArray<Entry> => {
    const told = withoutTail(
      parts.flatMap((part): ReadonlyArray<MessagePart> => {
        switch (part.type) {
          case "tool_call":
            return [{ type: "text", text: `Called ${part.tool}: ${JSON.stringify(part.input)}` }]
          case "tool_result":
            return [{ type: "text", text: part.content }]
          case "reasoning":
            return []
          default:
            return [part]
        }
      })
    )
    return told.length === 0 ? [] : [{ role: role === "tool" ? "user" : role, parts: told }]
  })
