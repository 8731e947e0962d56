import type { FilePart, Message } from "@bowline/domain/session/Message"
import { fileNote, fileText, fileUrl, isImage, isPdf } from "@bowline/runtime/unstable/provider/FileText"
import type { ProviderRequest } from "@bowline/runtime/provider/Provider"
import { answerSchema } from "./AnswerSchema.ts"

type Entry = Pick<Message, "role" | "parts">

const texts = (parts: Entry["parts"]): ReadonlyArray<string> =>
  parts.flatMap((part) => (part.type === "text" && part.partial !== true && part.text !== "" ? [part.text] : []))

const fromFile = (file: FilePart): object => {
  if ("file_id" in file) return { type: "text", text: fileNote(file) }
  if (isImage(file)) return { type: "image_url", image_url: { url: fileUrl(file) } }
  if (isPdf(file) && "data" in file) {
    return { type: "file", file: { filename: file.name ?? "file.pdf", file_data: fileUrl(file) } }
  }
  const text = fileText(file)
  return { type: "text", text: text === undefined ? fileNote(file) : `${file.name ?? file.media_type}:\n\n${text}` }
}

/** Without a file a plain text: many servers accept a list of parts only for models with vision. */
const fromUser = (parts: Entry["parts"]): string | ReadonlyArray<object> => {
  if (!parts.some(({ type }) => type === "file")) return texts(parts).join("\n\n")
  return parts.flatMap((part) =>
    part.type === "file" ? [fromFile(part)] : texts([part]).map((text) => ({ type: "text", text }))
  )
}

const fromAssistant = (parts: Entry["parts"]): ReadonlyArray<object> => {
  const content = texts(parts).join("")
  const calls = parts.flatMap((part) =>
    part.type === "tool_call"
      ? [
          {
            id: part.task_id,
            type: "function",
            function: { name: part.tool, arguments: JSON.stringify(part.input) }
          }
        ]
      : []
  )
  if (calls.length > 0) return [{ role: "assistant", content: content === "" ? null : content, tool_calls: calls }]
  return content === "" ? [] : [{ role: "assistant", content }]
}

const fromEntry = ({ role, parts }: Entry): ReadonlyArray<object> => {
  switch (role) {
    case "user":
      return [{ role, content: fromUser(parts) }]
    case "assistant":
      return fromAssistant(parts)
    case "tool":
      return parts.flatMap((part) =>
        part.type === "tool_result" ? [{ role, tool_call_id: part.task_id, content: part.content }] : []
      )
  }
}

/** OpenAI's reasoning models accept only the new name of the limit; many other servers know only the old one. */
const limitOf = ({ model, maxOutputTokens }: ProviderRequest): object => {
  if (maxOutputTokens === undefined) return {}
  return /(^|[/:])(o\d|gpt-[5-9])/.test(model)
    ? { max_completion_tokens: maxOutputTokens }
    : { max_tokens: maxOutputTokens }
}

const formatOf = (request: ProviderRequest): object => {
  const json_schema = answerSchema(request)
  return json_schema === undefined ? {} : { response_format: { type: "json_schema", json_schema } }
}

/** Many servers speak this wire, and some of them refuse a field that is OpenAI's own. */
const samplingOf = ({ sampling = {} }: ProviderRequest): object => {
  const { prompt_cache_key: _, ...known } = sampling
  return known
}

/** The body of a request in the Chat Completions format. Reasoning and partial text are never sent. */
export const toChatRequest = (request: ProviderRequest): object => ({
  model: request.model,
  stream: true,
  stream_options: { include_usage: true },
  ...limitOf(request),
  ...samplingOf(request),
  ...formatOf(request),
  messages: [
    ...(request.system === "" ? [] : [{ role: "system", content: request.system }]),
    ...request.messages.flatMap(fromEntry)
  ],
  // Servers refuse `tool_choice` without tools.
  ...(request.tools.length === 0
    ? {}
    : {
        tools: request.tools.map(({ name, description, inputSchema }) => ({
          type: "function",
          function: { name, description, parameters: inputSchema }
        })),
        tool_choice: request.toolChoice
      })
})
