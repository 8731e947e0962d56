import { Schema } from "effect"

const CacheControl = Schema.optionalKey(Schema.Struct({ type: Schema.tag("ephemeral") }))

/** Blank text is refused. */
export const Text = Schema.Struct({
  type: Schema.tag("text"),
  text: Schema.String.check(Schema.isPattern(/\S/)),
  cache_control: CacheControl
})

const ToolResult = Schema.Struct({
  type: Schema.tag("tool_result"),
  tool_use_id: Schema.String,
  content: Schema.optionalKey(Schema.String),
  is_error: Schema.optionalKey(Schema.Boolean),
  cache_control: CacheControl
})

const ToolUse = Schema.Struct({
  type: Schema.tag("tool_use"),
  id: Schema.String.check(Schema.isPattern(/^[a-zA-Z0-9_-]+$/)),
  name: Schema.String,
  input: Schema.Record(Schema.String, Schema.Json),
  cache_control: CacheControl
})

const Thought = Schema.Union([
  Schema.Struct({ type: Schema.tag("thinking"), thinking: Schema.String, signature: Schema.String }),
  Schema.Struct({ type: Schema.tag("redacted_thinking"), data: Schema.String })
])

const Url = Schema.Struct({ type: Schema.tag("url"), url: Schema.String.check(Schema.isPattern(/^https?:/)) })

const Base64 = <Type extends string>(types: ReadonlyArray<Type>) =>
  Schema.Struct({
    type: Schema.tag("base64"),
    media_type: Schema.Literals(types),
    data: Schema.NonEmptyString.check(Schema.isBase64())
  })

const Image = Schema.Struct({
  type: Schema.tag("image"),
  source: Schema.Union([Url, Base64(["image/png", "image/jpeg", "image/gif", "image/webp"])]),
  cache_control: CacheControl
})

const Document = Schema.Struct({
  type: Schema.tag("document"),
  source: Schema.Union([
    Url,
    Base64(["application/pdf"]),
    Schema.Struct({
      type: Schema.tag("text"),
      media_type: Schema.tag("text/plain"),
      data: Schema.String.check(Schema.isPattern(/\S/))
    })
  ]),
  title: Schema.optionalKey(Schema.NonEmptyString),
  cache_control: CacheControl
})

const Message = Schema.Union([
  Schema.Struct({
    role: Schema.tag("user"),
    content: Schema.NonEmptyArray(Schema.Union([Text, Image, Document, ToolResult]))
  }),
  Schema.Struct({
    role: Schema.tag("assistant"),
    content: Schema.NonEmptyArray(Schema.Union([Text, ToolUse, Thought]))
  })
])
export type Message = typeof Message.Type

const callsOf = (message: Message | undefined): ReadonlyArray<string> =>
  message?.role === "assistant" ? message.content.flatMap((block) => (block.type === "tool_use" ? [block.id] : [])) : []

const resultsOf = (message: Message | undefined): ReadonlyArray<string> =>
  message?.role === "user"
    ? message.content.flatMap((block) => (block.type === "tool_result" ? [block.tool_use_id] : []))
    : []

/** The error of the server for messages in a wrong order. */
const breach = (messages: ReadonlyArray<Message>): string | undefined => {
  if (messages[0]?.role !== "user") return `messages: first message must use the "user" role`
  for (const [at, message] of messages.entries()) {
    const next = messages[at + 1]
    if (next?.role === message.role) return `messages: roles must alternate, but found multiple "${next.role}" in a row`
    const last = message.content.at(-1)
    if (last?.type === "thinking" || last?.type === "redacted_thinking") {
      return `messages.${at}: The final block in an assistant message cannot be \`${last.type}\``
    }
    const calls = callsOf(message)
    const isFirst =
      next?.content.slice(0, calls.length).every(({ type }) => type === "tool_result") ?? calls.length === 0
    const open = calls.find((id) => !isFirst || !resultsOf(next).includes(id))
    if (open !== undefined) {
      return `messages.${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${open}`
    }
    const orphan = resultsOf(message).find((id) => !callsOf(messages[at - 1]).includes(id))
    if (orphan !== undefined) return `messages.${at}: unexpected \`tool_use_id\` found in \`tool_result\`: ${orphan}`
  }
  return undefined
}

/** Messages of a request, in an order that the server accepts. */
export const MessagesHistory = Schema.NonEmptyArray(Message).check(Schema.makeFilter(breach))
