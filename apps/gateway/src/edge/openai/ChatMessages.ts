import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Option, Schema } from "effect"
import { type Brought, taskOf } from "../leg/ClientResults.ts"
import { given } from "./ChatSampling.ts"

const Part = Schema.Struct({
  type: Schema.Literals(["text", "refusal"]).annotate({
    message: "Expected text: the planner takes no images, audio or files"
  }),
  text: Schema.optionalKey(Schema.String),
  refusal: Schema.optionalKey(Schema.String)
}).check(Schema.makeFilter((part) => part[part.type] !== undefined || "Expected a text in the field of its type"))

const Call = Schema.Struct({
  id: Schema.String,
  function: Schema.optionalKey(Schema.Struct({ name: Schema.String, arguments: Schema.String }))
})

export const Message = Schema.Struct({
  role: Schema.Literals(["system", "developer", "user", "assistant", "tool", "function"]),
  content: given(Schema.Union([Schema.String, Schema.Array(Part)])),
  tool_calls: given(Schema.Array(Call)),
  tool_call_id: given(Schema.String)
}).check(
  Schema.makeFilter(({ role, tool_call_id }) =>
    role !== "tool" || typeof tool_call_id === "string"
      ? undefined
      : { path: ["tool_call_id"], issue: "This field is required" }
  )
)
export type Message = typeof Message.Type

export const textOf = ({ content }: Message): string => {
  if (typeof content === "string") return content
  return (content ?? []).map((part) => part[part.type] ?? "").join("\n\n")
}

export const instructionsOf = (messages: ReadonlyArray<Message>): string =>
  messages
    .flatMap((message) => (message.role === "system" || message.role === "developer" ? [textOf(message).trim()] : []))
    .filter((text) => text !== "")
    .join("\n\n")

/** A message as a text of the history: calls of the client's tools and their results, too. */
const told = (message: Message): PlanRequest["history"] => {
  const { role, tool_call_id, tool_calls } = message
  const text = textOf(message)
  switch (role) {
    case "user":
      return [{ role, content: text }]
    case "assistant": {
      const calls = (tool_calls ?? []).map(
        ({ function: called, id }) => `[${id}: calls ${called?.name ?? "a tool"} with ${called?.arguments ?? "{}"}]`
      )
      return [{ role, content: [text, ...calls].filter((line) => line.trim() !== "").join("\n\n") }]
    }
    case "tool":
    case "function":
      return [{ role: "user", content: `[${tool_call_id ?? "a function"}: its result]\n${text}` }]
    default:
      return []
  }
}

/** What the messages ask: the last one of the user is the question, all others are history. */
export const asked = (messages: ReadonlyArray<Message>) => {
  const last = messages.findLastIndex(({ role }) => role === "user")
  const question = messages[last]
  return {
    question: question === undefined ? "" : textOf(question),
    history: messages
      .filter((_, index) => index !== last)
      .flatMap(told)
      .filter(({ content }) => content.trim() !== "")
  }
}

/** The messages up to the last one that somebody says: instructions may stand behind it. */
export const spokenOf = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> =>
  messages.slice(0, messages.findLastIndex(({ role }) => role !== "system" && role !== "developer") + 1)

export const noQuestion =
  "Expected the user's message, which is the question, or results of tools, as the last messages. The planner begins its answer itself: say in a system message how"

/** What the last messages bring to a plan that waits for its client: results of calls, and then what the user says. */
export const broughtBy = (messages: ReadonlyArray<Message>, tools: Brought["tools"]): Brought | undefined => {
  const spoken = messages.findLastIndex(({ role }) => role !== "user") + 1
  const from = messages.slice(0, spoken).findLastIndex(({ role }) => role !== "tool") + 1
  const given = messages.slice(from, spoken)
  const results = given.flatMap((message, index) =>
    Option.toArray(
      Option.map(taskOf(message.tool_call_id ?? ""), (task_id) => ({
        path: `messages[${from + index}].content`,
        task_id,
        content: textOf(message)
      }))
    )
  )
  const calls = (messages[from - 1]?.tool_calls ?? []).flatMap(({ id }) => Option.toArray(taskOf(id)))
  if (results.length + calls.length === 0 || results.length < given.length) return undefined
  const texts = messages.slice(spoken).map(textOf)
  return { path: "messages", results, calls, texts: texts.filter((text) => text.trim() !== ""), tools }
}
