import type { FilePart, FileReference, MessagePart } from "@bowline/domain/session/Message"
import { Effect } from "effect"
import { fileNote, fileText, isImage, isImageType, isPdf } from "../provider/FileText.ts"
import type { ProviderRequest } from "../provider/Provider.ts"
import type { Entry } from "../provider/LegalHistory.ts"
import { isOpenAi, ofImage, ofPages, pagesIn } from "./FileTokens.ts"

/** Counts the tokens of a text, for a model. */
export interface CountTokens {
  (text: string): number
  /** The model, as `provider/model`: images cost differently. */
  readonly model?: string
}

/** The number of a model's tokens for one token of o200k, at most. Decision 0017 says where the numbers come from. */
export const allowance = (model: string): number => {
  const name = model.toLowerCase()
  if (isOpenAi(name)) return 1
  return name.includes("claude") ? 1.6 : 1.3
}

/** Characters. The tokenizer's time grows with the square of a word's length, so text without spaces is cut into pieces. */
const longestPiece = 256

/** Text that has no words, such as base64, takes the tokenizer longest. It has about so many tokens for each character. */
const run = /[A-Za-z0-9+/=_-]{256,}/g
const runTokens = 0.75
const isEncoded = (found: string): boolean => new Set(found.slice(0, 256)).size > 24

/** Ids of calls, plans and delimiters are drawn anew when a plan is replayed: each counts as most do, so that the plan is cut where it was. */
export const uuid = /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g
const uuidTokens = 23

/** Of a longer text only so many pieces are counted, and stand for all of it: counting blocks the event loop. */
const longestText = 131_072
const samples = 8
const margin = 1.1

const countText = (text: string, count: CountTokens): number => {
  if (text.length > longestText) {
    const size = Math.floor(longestText / samples)
    const apart = (text.length - size) / (samples - 1)
    const counted = Array.from({ length: samples }, (_, index) => {
      const at = Math.floor(index * apart)
      return countText(text.slice(at, at + size), count)
    })
    return (counted.reduce((sum, tokens) => sum + tokens, 0) / (size * samples)) * text.length * margin
  }
  let known = 0
  const words = text
    .replaceAll(run, (found) => {
      if (!isEncoded(found)) return found
      known += found.length * runTokens
      return " "
    })
    .replaceAll(uuid, () => {
      known += uuidTokens
      return " "
    })
  return known + countPieces(words, count)
}

const countPieces = (text: string, count: CountTokens): number => {
  let tokens = 0
  for (let at = 0; at < text.length;) {
    const piece = text.slice(at, at + longestPiece)
    // The space in front of a word belongs to the word.
    const space = at + longestPiece < text.length ? piece.lastIndexOf(" ") : -1
    const end = space > 0 ? space : piece.length
    tokens += count(piece.slice(0, end))
    at += end
  }
  return tokens
}

/** Bytes of a token, rather too few: English has more than four, code about three, and a character of Chinese has three of its own. */
const tokenBytes = 2.5

const byLength: CountTokens = (text) => Buffer.byteLength(text) / tokenBytes

/**
 * The tokenizer. To load it takes a quarter of a second: first its words, and in another turn what it makes of them. A single yield behind an
 * answer of the disk may end in the same turn.
 */
const load: Effect.Effect<CountTokens> = Effect.promise(() => import("gpt-tokenizer/bpeRanks/o200k_base")).pipe(
  Effect.andThen(Effect.yieldNow),
  Effect.andThen(Effect.yieldNow),
  Effect.andThen(Effect.promise(() => import("gpt-tokenizer/encoding/o200k_base"))),
  Effect.map(({ countTokens, setMergeCacheSize }): CountTokens => {
    // The default caches a hundred thousand words.
    setMergeCacheSize(4_096)
    // Text that looks like a special token of the model is ordinary text.
    const plain = { disallowedSpecial: new Set<string>() }
    return (piece) => countTokens(piece, plain)
  })
)

/**
 * Counts for a model, named as `provider/model`: exactly for OpenAI's newer models, rather too many for others. The first run loads the tokenizer.
 * Without the package `gpt-tokenizer`, which an app may leave out, it estimates by the length.
 */
export const forModel = (model: string, tokenizer = load): Effect.Effect<CountTokens> =>
  Effect.map(
    Effect.catchDefect(tokenizer, () => Effect.succeed(byLength)),
    (count): CountTokens =>
      Object.assign((text: string) => Math.ceil(allowance(model) * countText(text, count)), { model })
  )

/** Estimates by the length, and rather too many: for text so long that counting it would block the event loop. */
export const roughly = (model: string): CountTokens =>
  Object.assign((text: string) => Math.ceil(allowance(model) * byLength(text)), { model })

/** An upper limit for every model, without a tokenizer: a token is at least a byte. */
export const atMost = (model: string): CountTokens =>
  Object.assign((text: string) => Math.ceil(allowance(model) * Buffer.byteLength(text)), { model })

/** Tokens around a message, a call or a result. */
const frame = 8

/** Texts to count, and tokens to add to them. */
interface Countable {
  readonly texts: ReadonlyArray<string>
  readonly tokens: number
}

const total = (count: CountTokens, { texts, tokens }: Countable): number =>
  texts.reduce((sum, text) => sum + count(text), tokens)

/** Of a stored file only its size is known here. A text has rather more bytes for each token. */
const inReference = (file: FileReference, model: string): Countable => {
  if (isImageType(file.media_type)) return { texts: [], tokens: ofImage(model, file.width, file.height) }
  if (file.media_type === "application/pdf") {
    return { texts: [], tokens: ofPages(model, file.pages || pagesIn(file.bytes), allowance(model)) }
  }
  return {
    texts: [fileNote(file)],
    tokens: file.media_type.startsWith("text/") ? Math.ceil(file.bytes / tokenBytes) : 0
  }
}

const inFile = (file: FilePart, model: string): Countable => {
  if ("file_id" in file) return inReference(file, model)
  if (isImage(file)) return { texts: [], tokens: ofImage(model, null, null) }
  return isPdf(file)
    ? { texts: [], tokens: ofPages(model, pagesIn("data" in file ? file.data.length * 0.75 : 1), allowance(model)) }
    : { texts: [fileText(file) ?? fileNote(file)], tokens: 0 }
}

const inPart = (part: MessagePart, model = ""): Countable => {
  switch (part.type) {
    case "text":
      return { texts: part.partial === true ? [] : [part.text], tokens: 0 }
    case "reasoning":
      return { texts: part.signature === undefined ? [] : [part.text === "" ? part.signature : part.text], tokens: 0 }
    case "tool_call":
      return { texts: [part.tool, JSON.stringify(part.input)], tokens: frame }
    case "tool_result":
      return { texts: [part.content], tokens: frame }
    case "file": {
      const { texts, tokens } = inFile(part, model)
      return { texts, tokens: frame + tokens }
    }
  }
}

/** Tokens of a part in a prompt: 0 for a part that is never sent again. */
export const ofPart = (count: CountTokens, part: MessagePart): number => total(count, inPart(part, count.model))

/** A message, with the tokens of each of its parts. */
export interface Weighed<out Message extends Entry = Entry> {
  readonly message: Message
  readonly parts: ReadonlyArray<number>
  readonly tokens: number
}

const weighed = <Message extends Entry>(message: Message, parts: ReadonlyArray<number>): Weighed<Message> => ({
  message,
  parts,
  tokens: parts.reduce((sum, tokens) => sum + tokens, frame)
})

export const weigh = <Message extends Entry>(count: CountTokens, message: Message): Weighed<Message> =>
  weighed(
    message,
    message.parts.map((part) => ofPart(count, part))
  )

/** Characters to count at once: of Chinese they take about ten milliseconds. */
const longestSlice = 4_096

/** Cuts in front of a space if one is near the end, so that words stay whole. */
const slices = (text: string): ReadonlyArray<string> => {
  const found: Array<string> = []
  for (let at = 0; at < text.length;) {
    const last = at + longestSlice
    const space = last < text.length ? text.lastIndexOf(" ", last) : -1
    const end = space > last - longestPiece ? space : last
    found.push(text.slice(at, end))
    at = end
  }
  return found
}

/** Counts slice by slice, and lets other fibers run in between. Counts rather too many where it cuts a word. */
const countAll = (count: CountTokens, { texts, tokens }: Countable): Effect.Effect<number> =>
  Effect.reduce(
    texts.flatMap(slices),
    () => tokens,
    (sum, slice) =>
      Effect.andThen(
        Effect.yieldNow,
        Effect.sync(() => sum + count(slice))
      )
  )

/** The same as `weigh` of each message, but lets other fibers run in between. */
export const weighAll = <Message extends Entry>(
  count: CountTokens,
  messages: ReadonlyArray<Message>
): Effect.Effect<ReadonlyArray<Weighed<Message>>> =>
  Effect.forEach(messages, (message) =>
    Effect.map(
      Effect.forEach(message.parts, (part) => countAll(count, inPart(part, count.model))),
      (parts) => weighed(message, parts)
    )
  )

const inFrame = ({ system, tools }: Pick<ProviderRequest, "system" | "tools">): Countable => ({
  texts: [
    system,
    ...tools.flatMap(({ name, description, inputSchema }) => [name, description, JSON.stringify(inputSchema)])
  ],
  tokens: frame * (tools.length + 1)
})

/** Tokens of the rest of a prompt, beside its messages. */
export const ofFrame = (count: CountTokens, given: Parameters<typeof inFrame>[0]): number =>
  total(count, inFrame(given))

/** The same as `ofFrame`, but lets other fibers run in between. */
export const weighFrame = (count: CountTokens, given: Parameters<typeof inFrame>[0]): Effect.Effect<number> =>
  countAll(count, inFrame(given))

/** The tokens that the provider has reported for the prompt and the answer of the last step: the first `messages` of the history. */
export interface Reported {
  readonly tokens: number
  readonly messages: number
}

/** Tokens of a prompt: those that the provider has reported, plus an estimate of later messages; else an estimate of all, with the `frame`. */
export const ofPrompt = (
  frame: number,
  messages: ReadonlyArray<Pick<Weighed, "tokens">>,
  reported: Reported | undefined
): number => {
  const added = messages.slice(reported?.messages ?? 0)
  return added.reduce((sum, { tokens }) => sum + tokens, reported?.tokens ?? frame)
}
