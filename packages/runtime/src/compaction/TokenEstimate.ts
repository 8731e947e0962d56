import type { FilePart } from "@bowline/domain/session/FilePart"
import type { MessagePart } from "@bowline/domain/session/Message"
import { Effect } from "effect"
import { fileNote, fileText, isImage, isPdf } from "../provider/FileText.ts"
import type { ProviderRequest, ToolDefinition } from "../provider/Provider.ts"
import type { Entry } from "../session/LegalHistory.ts"

/** How many tokens a text is, for a model. */
export type CountTokens = (text: string) => number

/** The models of OpenAI's whose tokenizer is the one that is used here. */
const exact = /(^|[/:])(gpt-(4o|4\.1|4\.5|[5-9]|oss)|chatgpt|o\d)/

/** How many tokens a model may make of what is one of o200k. See decision 0017 for where the numbers are from. */
export const allowance = (model: string): number => {
  const name = model.toLowerCase()
  if (exact.test(name)) return 1
  return name.includes("claude") ? 1.6 : 1.3
}

/** The time that the tokenizer takes grows with the square of a word: what has no space is cut. */
const longestPiece = 256

const countPieces = (text: string, count: CountTokens): number => {
  let tokens = 0
  for (let at = 0; at < text.length;) {
    const piece = text.slice(at, at + longestPiece)
    // A word begins with the space in front of it.
    const space = at + longestPiece < text.length ? piece.lastIndexOf(" ") : -1
    const end = space > 0 ? space : piece.length
    tokens += count(piece.slice(0, end))
    at += end
  }
  return tokens
}

/**
 * Counts for a model, by its `provider/model`: exactly for newer ones of OpenAI's, rather too many for others. The tokenizer
 * is loaded when this is first run, which takes a quarter of a second.
 */
export const forModel = (model: string): Effect.Effect<CountTokens> =>
  Effect.map(
    Effect.promise(() => import("gpt-tokenizer/encoding/o200k_base")),
    ({ countTokens, setMergeCacheSize }): CountTokens => {
      // By default it would keep a hundred thousand words.
      setMergeCacheSize(4_096)
      const factor = allowance(model)
      // What looks like a mark of the model's own is text like any other.
      const plain = { disallowedSpecial: new Set<string>() }
      return (text) => Math.ceil(factor * countPieces(text, (piece) => countTokens(piece, plain)))
    }
  )

/** More than any model makes of it: a token is at least a byte. Needs no tokenizer. */
export const atMost =
  (model: string): CountTokens =>
  (text) =>
    Math.ceil(allowance(model) * Buffer.byteLength(text))

/** Of what frames a message, a call or a result. */
const frame = 8

/** What most models take for an image of a usual size. */
const image = 1_600

/** A page of a PDF is read as text and as an image, and seldom has less than so many bytes. */
const page = { tokens: 3_000, bytes: 30_000 }

const ofFile = (count: CountTokens, file: FilePart): number => {
  if (isImage(file)) return image
  if (!isPdf(file)) return count(fileText(file) ?? fileNote(file))
  const bytes = "data" in file ? file.data.length * 0.75 : page.bytes
  return page.tokens * Math.ceil(bytes / page.bytes)
}

/** What a part is in a prompt: nothing, if it is never replayed. */
export const ofPart = (count: CountTokens, part: MessagePart): number => {
  switch (part.type) {
    case "text":
      return part.partial === true ? 0 : count(part.text)
    case "reasoning":
      return part.signature === undefined ? 0 : count(part.text === "" ? part.signature : part.text)
    case "tool_call":
      return frame + count(part.tool) + count(JSON.stringify(part.input))
    case "tool_result":
      return frame + count(part.content)
    case "file":
      return frame + ofFile(count, part)
  }
}

/** A message, with the tokens of each of its parts. */
export interface Weighed<out Message extends Entry = Entry> {
  readonly message: Message
  readonly parts: ReadonlyArray<number>
  readonly tokens: number
}

export const weigh = <Message extends Entry>(count: CountTokens, message: Message): Weighed<Message> => {
  const parts = message.parts.map((part) => ofPart(count, part))
  return { message, parts, tokens: parts.reduce((sum, tokens) => sum + tokens, frame) }
}

/** Weighs message by message, and lets others run in between. */
export const weighAll = <Message extends Entry>(
  count: CountTokens,
  messages: ReadonlyArray<Message>
): Effect.Effect<ReadonlyArray<Weighed<Message>>> =>
  Effect.forEach(messages, (message) =>
    Effect.andThen(
      Effect.yieldNow,
      Effect.sync(() => weigh(count, message))
    )
  )

const ofTool = (count: CountTokens, { name, description, inputSchema }: ToolDefinition): number =>
  frame + count(name) + count(description) + count(JSON.stringify(inputSchema))

/** What a prompt has beside its messages. */
export const ofFrame = (count: CountTokens, { system, tools }: Pick<ProviderRequest, "system" | "tools">): number =>
  tools.reduce((sum, tool) => sum + ofTool(count, tool), frame + count(system))

/** What the provider itself has counted: prompt and answer of its last step, which were the first `messages` of the history. */
export interface Reported {
  readonly tokens: number
  readonly messages: number
}

/** A prompt: what the provider has counted of it, and an estimate of what was added; or one of all, `frame` included. */
export const ofPrompt = (
  frame: number,
  messages: ReadonlyArray<Pick<Weighed, "tokens">>,
  reported: Reported | undefined
): number => {
  const added = messages.slice(reported?.messages ?? 0)
  return added.reduce((sum, { tokens }) => sum + tokens, reported?.tokens ?? frame)
}
