import { Schema } from "effect"
import type { Asked, AskedMessage } from "../Script.ts"

const Text = (type: "input_text" | "output_text" | "summary_text") =>
  Schema.Struct({ type: Schema.tag(type), text: Schema.String })

const file = { type: Schema.tag("input_file") }

/** An image or a file may be a URL; a file with content has a name. */
const Content = Schema.Union([
  Text("input_text"),
  Schema.Struct({
    type: Schema.tag("input_image"),
    image_url: Schema.String.check(Schema.isPattern(/^(https?:|data:image\/(png|jpeg|gif|webp);base64,)/)),
    detail: Schema.Literals(["auto", "low", "high"])
  }),
  Schema.Struct({ ...file, file_url: Schema.String.check(Schema.isPattern(/^https?:/)) }),
  Schema.Struct({
    ...file,
    filename: Schema.NonEmptyString,
    file_data: Schema.String.check(Schema.isPattern(/^data:(text|application)\/[^;]+;base64,/))
  })
])

const Item = Schema.Union([
  Schema.Struct({
    type: Schema.tag("message"),
    role: Schema.tag("user"),
    content: Schema.NonEmptyArray(Content)
  }),
  Schema.Struct({
    type: Schema.tag("message"),
    role: Schema.tag("assistant"),
    phase: Schema.optionalKey(Schema.Literals(["commentary", "final_answer"])),
    content: Schema.Array(Text("output_text"))
  }),
  Schema.Struct({
    type: Schema.tag("reasoning"),
    summary: Schema.Array(Text("summary_text")),
    encrypted_content: Schema.NonEmptyString
  }),
  Schema.Struct({
    type: Schema.tag("function_call"),
    call_id: Schema.NonEmptyString,
    name: Schema.NonEmptyString,
    arguments: Schema.fromJsonString(Schema.Json)
  }),
  Schema.Struct({
    type: Schema.tag("function_call_output"),
    call_id: Schema.NonEmptyString,
    output: Schema.String
  })
])

/** The errors of the server for calls without a result, and for results without a call. */
const breach = (items: ReadonlyArray<typeof Item.Type>): string | undefined => {
  const idsOf = (type: "function_call" | "function_call_output") =>
    items.flatMap((item) => (item.type === type ? [item.call_id] : []))
  const [calls, outputs] = [idsOf("function_call"), idsOf("function_call_output")]
  const open = calls.find((id) => !outputs.includes(id))
  if (open !== undefined) return `No tool output found for function call ${open}.`
  const orphan = outputs.find((id) => !calls.includes(id))
  return orphan === undefined ? undefined : `No tool call found for function call output with call_id ${orphan}.`
}

/** The body of a request in the Responses format, as strict as the servers are. It asks the server to store nothing. */
export const ResponsesBody = Schema.fromJsonString(
  Schema.Struct({
    model: Schema.String,
    stream: Schema.tag(true),
    store: Schema.tag(false),
    instructions: Schema.optionalKey(Schema.String),
    include: Schema.optionalKey(Schema.Array(Schema.tag("reasoning.encrypted_content"))),
    input: Schema.NonEmptyArray(Item).check(Schema.makeFilter(breach)),
    max_output_tokens: Schema.optionalKey(Schema.Int),
    tools: Schema.optionalKey(
      Schema.Array(
        Schema.Struct({
          type: Schema.tag("function"),
          name: Schema.String,
          description: Schema.String,
          parameters: Schema.Record(Schema.String, Schema.Json),
          strict: Schema.tag(false)
        })
      )
    ),
    tool_choice: Schema.optionalKey(Schema.Literals(["auto", "none"])),
    text: Schema.optionalKey(
      Schema.Struct({
        format: Schema.Struct({
          type: Schema.tag("json_schema"),
          name: Schema.String,
          schema: Schema.Record(Schema.String, Schema.Json),
          strict: Schema.Boolean
        })
      })
    ),
    temperature: Schema.optionalKey(Schema.Finite),
    top_p: Schema.optionalKey(Schema.Finite),
    prompt_cache_key: Schema.optionalKey(Schema.String),
    reasoning: Schema.optionalKey(Schema.Struct({ effort: Schema.String }))
  })
)

type Assistant = Extract<AskedMessage, { readonly role: "assistant" }>

/** Items of the model without a result between them are one message. */
const toMessages = (items: ReadonlyArray<typeof Item.Type>): ReadonlyArray<AskedMessage> => {
  const messages: Array<AskedMessage> = []
  const write = (add: (last: Assistant) => Partial<Assistant>) => {
    const at = messages.at(-1)?.role === "assistant" ? messages.length - 1 : messages.length
    const last = messages[at]
    const written: Assistant = last?.role === "assistant" ? last : { role: "assistant", text: "", calls: [] }
    messages[at] = { ...written, ...add(written) }
  }
  for (const item of items) {
    switch (item.type) {
      case "message": {
        const texts = item.content.flatMap((part) => ("text" in part ? [part.text] : []))
        if (item.role === "user") messages.push({ role: "user", text: texts.join("\n\n") })
        else write((last) => ({ text: last.text + texts.join("") }))
        break
      }
      case "function_call": {
        const call = { id: item.call_id, name: item.name, input: item.arguments }
        write((last) => ({ calls: [...last.calls, call] }))
        break
      }
      case "function_call_output":
        messages.push({ role: "tool", id: item.call_id, content: item.output })
        break
      case "reasoning":
    }
  }
  return messages
}

export const toAsked = (body: typeof ResponsesBody.Type): Asked => ({
  model: body.model,
  system: body.instructions ?? "",
  messages: toMessages(body.input),
  tools: (body.tools ?? []).map(({ name, description, parameters }) => ({
    name,
    description,
    inputSchema: parameters
  })),
  toolChoice: body.tool_choice ?? "auto"
})
