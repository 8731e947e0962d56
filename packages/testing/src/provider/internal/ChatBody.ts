import { Schema } from "effect"
import type { Asked, AskedMessage } from "../Script.ts"

const Text = Schema.Struct({ type: Schema.tag("text"), text: Schema.String })

/** An image may be a URL; a file holds its content. */
const Content = Schema.Union([
  Text,
  Schema.Struct({
    type: Schema.tag("image_url"),
    image_url: Schema.Struct({
      url: Schema.String.check(Schema.isPattern(/^(https?:|data:image\/(png|jpeg|gif|webp);base64,)/))
    })
  }),
  Schema.Struct({
    type: Schema.tag("file"),
    file: Schema.Struct({
      filename: Schema.NonEmptyString,
      file_data: Schema.String.check(Schema.isPattern(/^data:application\/pdf;base64,/))
    })
  })
])

const Message = Schema.Union([
  Schema.Struct({ role: Schema.tag("system"), content: Schema.String }),
  Schema.Struct({
    role: Schema.tag("user"),
    content: Schema.Union([Schema.String, Schema.NonEmptyArray(Content)])
  }),
  Schema.Struct({
    role: Schema.tag("assistant"),
    content: Schema.optionalKey(Schema.NullOr(Schema.String)),
    tool_calls: Schema.optionalKey(
      Schema.Array(
        Schema.Struct({
          id: Schema.String,
          type: Schema.tag("function"),
          function: Schema.Struct({ name: Schema.String, arguments: Schema.fromJsonString(Schema.Json) })
        })
      )
    )
  }),
  Schema.Struct({ role: Schema.tag("tool"), tool_call_id: Schema.String, content: Schema.String })
])

/** The body of a request in the Chat Completions format, as strict as the servers are. */
export const ChatBody = Schema.fromJsonString(
  Schema.Struct({
    model: Schema.String,
    stream: Schema.tag(true),
    messages: Schema.Array(Message),
    tools: Schema.optionalKey(
      Schema.Array(
        Schema.Struct({
          type: Schema.tag("function"),
          function: Schema.Struct({
            name: Schema.String,
            description: Schema.String,
            parameters: Schema.Record(Schema.String, Schema.Json)
          })
        })
      )
    ),
    tool_choice: Schema.optionalKey(Schema.Literals(["auto", "none"])),
    response_format: Schema.optionalKey(
      Schema.Struct({
        type: Schema.tag("json_schema"),
        json_schema: Schema.Struct({
          name: Schema.String,
          schema: Schema.Record(Schema.String, Schema.Json),
          strict: Schema.Boolean
        })
      })
    ),
    temperature: Schema.optionalKey(Schema.Finite),
    top_p: Schema.optionalKey(Schema.Finite),
    stop: Schema.optionalKey(Schema.NonEmptyArray(Schema.String)),
    seed: Schema.optionalKey(Schema.Int),
    reasoning_effort: Schema.optionalKey(Schema.String)
  })
)

const textOf = (content: string | ReadonlyArray<typeof Content.Type>): string =>
  typeof content === "string"
    ? content
    : content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n")

const fromMessage = (message: typeof Message.Type): ReadonlyArray<AskedMessage> => {
  switch (message.role) {
    case "system":
      return []
    case "user":
      return [{ role: "user", text: textOf(message.content) }]
    case "assistant":
      return [
        {
          role: "assistant",
          text: message.content ?? "",
          calls: (message.tool_calls ?? []).map((call) => ({
            id: call.id,
            name: call.function.name,
            input: call.function.arguments
          }))
        }
      ]
    case "tool":
      return [{ role: "tool", id: message.tool_call_id, content: message.content }]
  }
}

export const toAsked = (body: typeof ChatBody.Type): Asked => ({
  model: body.model,
  system: body.messages.flatMap((message) => (message.role === "system" ? [message.content] : [])).join("\n\n"),
  messages: body.messages.flatMap(fromMessage),
  tools: (body.tools ?? []).map(({ function: { name, description, parameters } }) => ({
    name,
    description,
    inputSchema: parameters
  })),
  toolChoice: body.tool_choice ?? "auto"
})
