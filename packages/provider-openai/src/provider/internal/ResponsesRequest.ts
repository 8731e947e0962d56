import type { FilePart, Message, MessagePart } from "@bowline/domain/session/Message"
import { fileNote, fileUrl, isImage, isPdf } from "@bowline/runtime/unstable/provider/FileText"
import type { ProviderRequest } from "@bowline/runtime/provider/Provider"
import { answerSchema } from "./AnswerSchema.ts"

type Entry = Pick<Message, "role" | "parts">

const textOf = (part: MessagePart): string => (part.type === "text" && part.partial !== true ? part.text : "")

/** Kinds that the server converts to text, and PDFs. It refuses any other file. */
const isDocument = (file: FilePart): boolean =>
  isPdf(file) ||
  /^(text\/.+|application\/(json|rtf|msword|vnd\.(ms-excel|ms-powerpoint|(openxmlformats-office|oasis\.open)document\..+)))$/.test(
    file.media_type
  )

/** The server also looks at the name to find out the kind. */
const nameOf = (file: FilePart): string | undefined => {
  if (isPdf(file)) return "file.pdf"
  return file.media_type.startsWith("text/") ? "file.txt" : undefined
}

const fromFile = (file: FilePart): object => {
  if ("file_id" in file) return { type: "input_text", text: fileNote(file) }
  if (isImage(file)) return { type: "input_image", image_url: fileUrl(file), detail: "auto" }
  if (!isDocument(file)) return { type: "input_text", text: fileNote(file) }
  if ("url" in file) return { type: "input_file", file_url: file.url }
  const filename = file.name ?? nameOf(file)
  return filename === undefined
    ? { type: "input_text", text: fileNote(file) }
    : { type: "input_file", filename, file_data: fileUrl(file) }
}

/** Joins texts that follow each other. */
const fromUser = (parts: Entry["parts"]): ReadonlyArray<object> => {
  const content: Array<object> = []
  let texts: Array<string> = []
  const flush = () => {
    if (texts.length > 0) content.push({ type: "input_text", text: texts.join("\n\n") })
    texts = []
  }
  for (const part of parts) {
    if (part.type === "file") {
      flush()
      content.push(fromFile(part))
    } else if (textOf(part) !== "") texts.push(textOf(part))
  }
  flush()
  return content.length === 0 ? [] : [{ type: "message", role: "user", content }]
}

const message = (text: string, phase: string | undefined): ReadonlyArray<object> =>
  text === ""
    ? []
    : [
        {
          type: "message",
          role: "assistant",
          ...(phase === undefined ? {} : { phase }),
          content: [{ type: "output_text", text }]
        }
      ]

/**
 * The items in their original order: a model needs its reasoning in front of what followed from it. The items have no ids: the
 * server would look them up, and it has stored nothing.
 */
const fromAssistant = (parts: Entry["parts"], provider: string): ReadonlyArray<object> => {
  const items: Array<object> = []
  let text = ""
  let phase: string | undefined
  const flush = () => {
    items.push(...message(text, phase))
    text = ""
  }
  for (const part of parts) {
    if (part.type === "text" && part.phase !== phase) {
      flush()
      phase = part.phase
    }
    if (part.type === "tool_call") {
      flush()
      items.push({
        type: "function_call",
        call_id: part.task_id,
        name: part.tool,
        arguments: JSON.stringify(part.input)
      })
    } else if (part.type === "reasoning" && part.provider === provider && part.signature !== undefined) {
      flush()
      const summary = part.text === "" ? [] : [{ type: "summary_text", text: part.text }]
      items.push({ type: "reasoning", summary, encrypted_content: part.signature })
    } else text += textOf(part)
  }
  flush()
  return items
}

const fromEntry = ({ role, parts }: Entry, provider: string): ReadonlyArray<object> => {
  switch (role) {
    case "user":
      return fromUser(parts)
    case "assistant":
      return fromAssistant(parts, provider)
    case "tool":
      return parts.flatMap((part) =>
        part.type === "tool_result"
          ? [{ type: "function_call_output", call_id: part.task_id, output: part.content }]
          : []
      )
  }
}

/** The wire has neither `stop` nor `seed`. */
const samplingOf = (sampling: NonNullable<ProviderRequest["sampling"]>): object => {
  const { prompt_cache_key, reasoning_effort, temperature, top_p } = sampling
  return {
    ...(temperature !== undefined && { temperature }),
    ...(top_p !== undefined && { top_p }),
    ...(reasoning_effort !== undefined && { reasoning: { effort: reasoning_effort } }),
    ...(prompt_cache_key !== undefined && { prompt_cache_key })
  }
}

const formatOf = (request: ProviderRequest): object => {
  const schema = answerSchema(request)
  return schema === undefined ? {} : { text: { format: { type: "json_schema", ...schema } } }
}

/**
 * The body of a request in the Responses format. The server is to store nothing. Reasoning is sent only if `provider` has signed
 * it; partial text never is.
 */
export const toResponsesRequest = (request: ProviderRequest, provider: string): object => ({
  model: request.model,
  stream: true,
  store: false,
  // A model that does not reason refuses a request for encrypted reasoning.
  ...(request.facts?.isReasoning === false ? {} : { include: ["reasoning.encrypted_content"] }),
  ...(request.system === "" ? {} : { instructions: request.system }),
  input: request.messages.flatMap((entry) => fromEntry(entry, provider)),
  ...(request.maxOutputTokens === undefined ? {} : { max_output_tokens: request.maxOutputTokens }),
  ...(request.sampling !== undefined && samplingOf(request.sampling)),
  ...formatOf(request),
  // Servers refuse `tool_choice` without tools.
  ...(request.tools.length === 0
    ? {}
    : {
        tools: request.tools.map(({ name, description, inputSchema }) => ({
          type: "function",
          name,
          description,
          parameters: inputSchema,
          strict: false
        })),
        tool_choice: request.toolChoice
      })
})
