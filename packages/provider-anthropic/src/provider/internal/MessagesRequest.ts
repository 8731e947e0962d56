import type { FilePart, MessagePart } from "@bowline/domain/session/Message"
import type { TaskState } from "@bowline/domain/tool/TaskState"
import { fileNote, fileText, isImage, isPdf } from "@bowline/runtime/unstable/provider/FileText"
import type { ProviderRequest } from "@bowline/runtime/provider/Provider"
import { isStrict } from "@bowline/runtime/unstable/provider/StrictSchema"
import { fromSigned } from "./Thought.ts"

interface Block {
  readonly type: string
  readonly [field: string]: unknown
}

/** The wire requires a limit. For an unknown model it is one that every model in use allows. */
const limitOf = ({ maxOutputTokens, facts }: ProviderRequest): number =>
  maxOutputTokens ?? Math.min(facts?.outputLimit ?? 8_192, 32_000)

/**
 * The wire has neither `seed` nor `reasoning_effort`, and its temperatures end at 1. Newer models take either `temperature` or `top_p`. Blank
 * texts to stop at are refused.
 */
const samplingOf = ({ temperature, top_p, stop = [] }: NonNullable<ProviderRequest["sampling"]>): object => {
  const stop_sequences = stop.filter((text) => text.trim() !== "")
  return {
    ...(temperature !== undefined && { temperature: Math.min(temperature, 1) }),
    ...(temperature === undefined && top_p !== undefined && { top_p }),
    ...(stop_sequences.length > 0 && { stop_sequences })
  }
}

const failed: ReadonlyArray<TaskState> = ["failed", "canceled", "rejected", "timed-out", "interrupted", "invalid"]

const isThought = ({ type }: Block): boolean => type === "thinking" || type === "redacted_thinking"

const fromFile = (file: FilePart): Block => {
  if ("file_id" in file) return { type: "text", text: fileNote(file) }
  const title = file.name === undefined ? {} : { title: file.name }
  if (isImage(file) || isPdf(file)) {
    const source =
      "data" in file ? { type: "base64", media_type: file.media_type, data: file.data } : { type: "url", url: file.url }
    return isPdf(file) ? { type: "document", source, ...title } : { type: "image", source }
  }
  const data = fileText(file)
  return data === undefined || data.trim() === ""
    ? { type: "text", text: fileNote(file) }
    : { type: "document", source: { type: "text", media_type: "text/plain", data }, ...title }
}

/** Leaves out blank text, which the wire refuses, partial text, and thoughts that another provider has signed. */
const toBlocks = (part: MessagePart, provider: string): ReadonlyArray<Block> => {
  switch (part.type) {
    case "text":
      return part.partial === true || part.text.trim() === "" ? [] : [{ type: "text", text: part.text }]
    case "reasoning":
      return part.provider === provider && part.signature !== undefined ? [fromSigned(part.text, part.signature)] : []
    case "file":
      return [fromFile(part)]
    case "tool_call":
      return [{ type: "tool_use", id: part.task_id, name: part.tool, input: part.input }]
    case "tool_result":
      return [
        {
          type: "tool_result",
          tool_use_id: part.task_id,
          ...(part.content === "" ? {} : { content: part.content }),
          ...(failed.includes(part.state) ? { is_error: true } : {})
        }
      ]
  }
}

interface Turn {
  readonly role: "user" | "assistant"
  readonly content: ReadonlyArray<Block>
}

/** Joins neighbours of one role, since roles must alternate. The wire refuses a last message of the model that ends in a thought. */
const toTurns = ({ messages }: ProviderRequest, provider: string): ReadonlyArray<Turn> => {
  const turns: Array<Turn> = []
  for (const message of messages.toReversed()) {
    const role = message.role === "assistant" ? "assistant" : "user"
    const behind = turns.at(-1)
    const blocks = message.parts.flatMap((part) => toBlocks(part, provider))
    const isLast = role === "assistant" && behind?.role !== "assistant"
    const content = isLast ? blocks.slice(0, blocks.findLastIndex((block) => !isThought(block)) + 1) : blocks
    if (content.length === 0) continue
    if (behind?.role === role) turns[turns.length - 1] = { role, content: [...content, ...behind.content] }
    else turns.push({ role, content })
  }
  return turns.toReversed()
}

/** Has the provider cache everything up to the last block for the next request. */
const cached = (blocks: ReadonlyArray<Block>): ReadonlyArray<Block> =>
  blocks.map((block, at) => (at === blocks.length - 1 ? { ...block, cache_control: { type: "ephemeral" } } : block))

/** The wire refuses schemas beyond its own part of JSON Schema. */
const formatOf = ({ outputSchema }: ProviderRequest): object =>
  outputSchema === undefined || !isStrict(outputSchema, { needsAll: false })
    ? {}
    : { output_config: { format: { type: "json_schema", schema: outputSchema } } }

/** The body of a request in the Messages format. Thoughts that `provider` has signed are sent back to it unchanged. */
export const toMessagesRequest = (request: ProviderRequest, provider: string): object => ({
  model: request.model,
  max_tokens: limitOf(request),
  stream: true,
  ...(request.sampling !== undefined && samplingOf(request.sampling)),
  ...formatOf(request),
  ...(request.system.trim() === "" ? {} : { system: cached([{ type: "text", text: request.system }]) }),
  messages: toTurns(request, provider).map((turn, at, { length }) =>
    at === length - 1 ? { ...turn, content: cached(turn.content) } : turn
  ),
  // Servers refuse `tool_choice` without tools.
  ...(request.tools.length === 0
    ? {}
    : {
        tools: request.tools.map(({ name, description, inputSchema }) => ({
          name,
          description,
          input_schema: { type: "object", ...inputSchema }
        })),
        tool_choice: { type: request.toolChoice }
      })
})
