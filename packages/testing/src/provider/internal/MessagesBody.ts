import { Schema } from "effect"
import type { Asked, AskedMessage } from "../Script.ts"
import { type Message, MessagesHistory, Text } from "./MessagesHistory.ts"

/** The body of a request in the Messages format, as strict as the server is. */
export const MessagesBody = Schema.fromJsonString(
  Schema.Struct({
    model: Schema.String,
    max_tokens: Schema.Int.check(Schema.isGreaterThan(0)),
    stream: Schema.tag(true),
    system: Schema.optionalKey(Schema.Array(Text)),
    messages: MessagesHistory,
    tools: Schema.optionalKey(
      Schema.Array(
        Schema.Struct({
          name: Schema.String,
          description: Schema.String,
          input_schema: Schema.StructWithRest(Schema.Struct({ type: Schema.tag("object") }), [
            Schema.Record(Schema.String, Schema.Json)
          ])
        })
      )
    ),
    tool_choice: Schema.optionalKey(Schema.Struct({ type: Schema.Literals(["auto", "none"]) })),
    output_config: Schema.optionalKey(
      Schema.Struct({
        format: Schema.Struct({ type: Schema.tag("json_schema"), schema: Schema.Record(Schema.String, Schema.Json) })
      })
    ),
    temperature: Schema.optionalKey(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))),
    top_p: Schema.optionalKey(Schema.Finite),
    stop_sequences: Schema.optionalKey(Schema.NonEmptyArray(Schema.String))
  })
)

const fromMessage = ({ role, content }: Message): ReadonlyArray<AskedMessage> => {
  const texts = content.flatMap((block) => (block.type === "text" ? [block.text] : []))
  if (role === "assistant") {
    const calls = content.flatMap((block) =>
      block.type === "tool_use" ? [{ id: block.id, name: block.name, input: block.input }] : []
    )
    return [{ role, text: texts.join(""), calls }]
  }
  const results = content.flatMap((block): ReadonlyArray<AskedMessage> =>
    block.type === "tool_result" ? [{ role: "tool", id: block.tool_use_id, content: block.content ?? "" }] : []
  )
  return texts.length === 0 ? results : [...results, { role, text: texts.join("\n\n") }]
}

export const toAsked = (body: typeof MessagesBody.Type): Asked => ({
  model: body.model,
  system: (body.system ?? []).map(({ text }) => text).join("\n\n"),
  messages: body.messages.flatMap(fromMessage),
  tools: (body.tools ?? []).map(({ name, description, input_schema }) => ({
    name,
    description,
    inputSchema: input_schema
  })),
  toolChoice: body.tool_choice?.type ?? "auto"
})
