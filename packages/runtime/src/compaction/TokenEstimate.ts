import type { FilePart, FileReference, MessagePart } from "@bowline/domain/session/Message"
import { Effect } from "effect"
import { fileNote, fileText, isImage, isImageType, isPdf } from "../provider/FileText.ts"
import type { ProviderRequest } from "../provider/Provider.ts"
import type { Entry } from "../provider/LegalHistory.ts"

/** Counts the tokens of a text, for a model. */
export interface CountTokens {
  (text: string): number
  /** The model, as `provider/model`: images cost differently. */
  readonly model?: string
}

/** OpenAI's models with the tokenizer that is used here, o200k. */
const exact = /(^|[/:])(gpt-(4o|4\.1|4\.5|[5-9]|oss)|chatgpt|o\d)/

/** The number of a model's tokens for one token of o200k, at most. Decision 0017 says where the numbers come from. */
export const allowance = (model: string): number => {
  const name = model.toLowerCase()
  if (exact.test(name)) return 1
  return name.includes("claude") ? 1.6 : 1.3
}

/** Characters. The tokenizer's time grows with the square of a word's length, so text without spaces is cut into pieces. */
const longestPiece = 256

/** Text that has no words, such as base64, takes the tokenizer longest. It has about so many tokens for each character. */
const run = /[A-Za-z0-9+/=_-]{256,}/g
const runTokens = 0.75
const isEncoded = (found: string): boolean => new Set(found.slice(0, 256)).size > 24

/** Ids of calls, plans and delimiters are drawn anew when a plan is replayed: each counts as most do, so that the plan is cut where it was. */
const uuid = /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g
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

/** Tokens that most models count for an image of usual size. */
const image = 1_600

/**
 * A model reads a PDF's page as text and as an image, of A4 that is as large as Anthropic takes it. Anthropic says that a page has 1,500 to 3,000 tokens of text: with its image this is within 20 % of
 * both. OpenAI says no more than that it does the same; Google counts the image alone, which is less. A page seldom has fewer bytes than this.
 */
const page = { text: 2_100, width: 1_109, height: 1_568, bytes: 30_000 }

const ofPages = (model: string, pages: number): number => pages * (page.text + ofImage(model, page.width, page.height))

/** Texts to count, and tokens to add to them. */
interface Countable {
  readonly texts: ReadonlyArray<string>
  readonly tokens: number
}

const total = (count: CountTokens, { texts, tokens }: Countable): number =>
  texts.reduce((sum, text) => sum + count(text), tokens)

/** What Anthropic counts: an image has at most 1,568 pixels a side, and some 1.15 million together. */
const byArea = (width: number, height: number): number => {
  const scale = Math.min(1, 1_568 / Math.max(width, height), Math.sqrt(1_200_000 / (width * height)))
  return Math.ceil((width * scale * height * scale) / 750)
}

/** What OpenAI's smaller models count: patches of 32 pixels, at most 1,536 of them. */
const byPatches = (width: number, height: number, factor: number): number =>
  Math.ceil(Math.min(1_536, Math.ceil(width / 32) * Math.ceil(height / 32)) * factor)

/** What OpenAI's other models count: tiles of 512 pixels, of an image whose shorter side has 768 at most. */
const byTiles = (width: number, height: number, base: number, tile: number): number => {
  const whole = Math.min(1, 2_048 / Math.max(width, height))
  const scale = whole * Math.min(1, 768 / (Math.min(width, height) * whole))
  return base + tile * Math.ceil((width * scale) / 512) * Math.ceil((height * scale) / 512)
}

/** Tokens of an image of this size, as the provider of the model counts them; without a size those of a usual image. */
export const ofImage = (model: string, width: number | null, height: number | null): number => {
  if (width === null || height === null) return image
  const name = model.toLowerCase()
  if (/gpt-(4\.1|5)-nano/.test(name)) return byPatches(width, height, 2.46)
  if (/gpt-(4\.1|5)-mini/.test(name)) return byPatches(width, height, 1.62)
  if (/o4-mini/.test(name)) return byPatches(width, height, 1.72)
  if (/gpt-5/.test(name)) return byTiles(width, height, 70, 140)
  if (/gpt-4o-mini/.test(name)) return byTiles(width, height, 2_833, 5_667)
  if (/(^|[/:])o[134]/.test(name)) return byTiles(width, height, 75, 150)
  return exact.test(name) ? byTiles(width, height, 85, 170) : byArea(width, height)
}

/** Of a stored file only its size is known here. A text has rather more bytes for each token. */
const inReference = (file: FileReference, model: string): Countable => {
  if (isImageType(file.media_type)) return { texts: [], tokens: ofImage(model, file.width, file.height) }
  if (file.media_type === "application/pdf") {
    return { texts: [], tokens: ofPages(model, file.pages || Math.ceil(file.bytes / page.bytes)) }
  }
  return {
    texts: [fileNote(file)],
    tokens: file.media_type.startsWith("text/") ? Math.ceil(file.bytes / tokenBytes) : 0
  }
}

const inFile = (file: FilePart, model: string): Countable => {
  if ("file_id" in file) return inReference(file, model)
  if (isImage(file)) return { texts: [], tokens: image }
  const bytes = "data" in file ? file.data.length * 0.75 : page.bytes
  return isPdf(file)
    ? { texts: [], tokens: ofPages(model, Math.ceil(bytes / page.bytes)) }
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
