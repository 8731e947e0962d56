import type { FilePart, MessagePart } from "@bowline/domain/session/Message"
import { Effect } from "effect"
import { fileNote, fileText, isImage, isPdf } from "../provider/FileText.ts"
import type { ProviderRequest } from "../provider/Provider.ts"
import type { Entry } from "../history/LegalHistory.ts"

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

/** What is no word of a language takes the tokenizer longest, and is about so many tokens a character: base64, and its like. */
const run = /[A-Za-z0-9+/=_-]{256,}/g
const runTokens = 0.75
const isEncoded = (found: string): boolean => new Set(found.slice(0, 256)).size > 24

/** Of a longer text so many pieces are counted, for all of it: nobody may hold up everybody else. */
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
  let inRuns = 0
  const words = text.replaceAll(run, (found) => {
    if (!isEncoded(found)) return found
    inRuns += found.length
    return " "
  })
  return inRuns * runTokens + countPieces(words, count)
}

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
      return (text) => Math.ceil(factor * countText(text, (piece) => countTokens(piece, plain)))
    }
  )

/** At a glance, and rather too many: for what is so long that to count it would hold up everybody else. */
export const roughly =
  (model: string): CountTokens =>
  (text) =>
    Math.ceil((allowance(model) * Buffer.byteLength(text)) / 2.5)

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

/** What there is to count: texts, and tokens beside them. */
interface Countable {
  readonly texts: ReadonlyArray<string>
  readonly tokens: number
}

const total = (count: CountTokens, { texts, tokens }: Countable): number =>
  texts.reduce((sum, text) => sum + count(text), tokens)

const inFile = (file: FilePart): Countable => {
  if (isImage(file)) return { texts: [], tokens: image }
  if (!isPdf(file)) return { texts: [fileText(file) ?? fileNote(file)], tokens: 0 }
  const bytes = "data" in file ? file.data.length * 0.75 : page.bytes
  return { texts: [], tokens: page.tokens * Math.ceil(bytes / page.bytes) }
}

const inPart = (part: MessagePart): Countable => {
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
      const { texts, tokens } = inFile(part)
      return { texts, tokens: frame + tokens }
    }
  }
}

/** What a part is in a prompt: nothing, if it is never replayed. */
export const ofPart = (count: CountTokens, part: MessagePart): number => total(count, inPart(part))

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

/** Characters that are counted at once: of text that makes no words they take ten milliseconds or so. */
const longestSlice = 8_192

/** Cuts in front of a space where there is one near the end, so that a word is counted as one. */
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

/** Counts slice by slice, and lets others run in between; rather too many where a word is cut. */
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

/** The same as `weigh` of each message, but lets others run in between. */
export const weighAll = <Message extends Entry>(
  count: CountTokens,
  messages: ReadonlyArray<Message>
): Effect.Effect<ReadonlyArray<Weighed<Message>>> =>
  Effect.forEach(messages, (message) =>
    Effect.map(
      Effect.forEach(message.parts, (part) => countAll(count, inPart(part))),
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

/** What a prompt has beside its messages. */
export const ofFrame = (count: CountTokens, given: Parameters<typeof inFrame>[0]): number =>
  total(count, inFrame(given))

/** The same as `ofFrame`, but lets others run in between. */
export const weighFrame = (count: CountTokens, given: Parameters<typeof inFrame>[0]): Effect.Effect<number> =>
  countAll(count, inFrame(given))

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
