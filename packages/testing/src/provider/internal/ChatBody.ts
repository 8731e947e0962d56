import { Schema } from "effect"
import type { Asked, AskedMessage } from "../Script.ts"

const Message = Schema.Union([
  Schema.Struct({ role: Schema.Literals(["system", "user"]), content: Schema.String }),
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
    tool_choice: Schema.optionalKey(Schema.Literals(["auto", "none"]))
  })
)

const fromMessage = (message: typeof Message.Type): ReadonlyArray<AskedMessage> => {
  switch (message.role) {
    case "system":
      return []
    case "user":
      return [{ role: "user", text: message.content }]
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
