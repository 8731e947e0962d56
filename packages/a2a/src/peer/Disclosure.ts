import type { PeerEvent, ReceivedFile } from "@bowline/runtime/remote/PeerClient"
import { Effect } from "effect"
import { maxBytes, tooLarge } from "@bowline/runtime/unstable/http/Exchange"
import type { ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import type { RedactedSequence } from "@bowline/runtime/unstable/http/RedactedSequence"
import type { Redaction } from "@bowline/runtime/unstable/http/Redaction"

/** A message, or an artifact that is one text, and where its text starts. */
interface Spoken {
  readonly event: Extract<PeerEvent, { readonly _tag: "Progress" | "Artifact" }>
  readonly start: number
  text: string
}

/** Characters of one message on the way. The last words are in the result, up to the limits of a result. */
const maxMessage = 65_536
/** Characters of all that one call tells on the way. */
const maxTold = 4 * maxBytes
/** What an event counts for at least: it is kept, however small it is. */
const minEvent = 256
/** Texts that wait. A secret that comes in more pieces is hidden, too, but its pieces are told as one message. */
const maxWaiting = 1_000

const textOf = (event: PeerEvent): string | undefined => {
  if (event._tag === "Progress") return event.message
  return event._tag === "Artifact" && typeof event.content === "string" ? event.content : undefined
}

const sizeOf = (event: PeerEvent, text: string | undefined): number => {
  if (event._tag === "Accepted") return 0
  if (event._tag === "Progress") return Math.max(Math.min(text?.length ?? 0, maxMessage), minEvent)
  const files = (event.files ?? []).reduce((sum, file) => sum + ("data" in file ? file.data : file.url).length, 0)
  return Math.max((text ?? JSON.stringify(event.content)).length + files, minEvent)
}

/** A search skips newlines, so a text of nothing else waits for as long as the text before it. */
const addsNothing = (text: string): boolean => /^\n*$/.test(text)

const cut = (text: string): string => (text.length <= maxMessage ? text : `${text.slice(0, maxMessage)}…`)

/**
 * Tells a caller what a peer says, without the secrets of the call. A secret may be split over texts that follow one another,
 * so they are searched as one text. A text that may end with the beginning of a secret waits for the next text.
 */
export class Disclosure {
  readonly #redaction: Redaction
  readonly #texts: RedactedSequence
  readonly #onEvent: (event: PeerEvent) => Effect.Effect<void>
  readonly #waiting: Array<Spoken> = []
  #state = ""
  #told = 0

  constructor(redaction: Redaction, onEvent: (event: PeerEvent) => Effect.Effect<void>) {
    this.#redaction = redaction
    this.#texts = redaction.sequence()
    this.#onEvent = onEvent
  }

  /** Tells events in their order. Fails when all events of the call together are too large. */
  tell(events: ReadonlyArray<PeerEvent>): Effect.Effect<void, ExchangeError> {
    return Effect.forEach(events, (event) => this.#tellOne(event), { discard: true })
  }

  /** Tells what still waits, and gives the result of the call as it can be shown. */
  finish(content: string): Effect.Effect<string> {
    return Effect.suspend(() => {
      const start = this.#texts.length
      this.#texts.add(content)
      return Effect.as(this.#release(this.#waiting.length), this.#texts.show(content, start))
    })
  }

  /** The files of a result or an artifact. */
  withoutSecrets({ files }: { readonly files?: ReadonlyArray<ReceivedFile> }): {
    readonly files?: ReadonlyArray<ReceivedFile>
  } {
    if (files === undefined) return {}
    const text = (said: string) => this.#redaction.text(said)
    return {
      files: files.map(({ mediaType, name, ...file }): ReceivedFile => ({
        mediaType: text(mediaType),
        ...(name !== undefined && { name: text(name) }),
        ...("data" in file ? { data: this.#redaction.base64(file.data) } : { url: text(file.url) })
      }))
    }
  }

  #tellOne(event: PeerEvent): Effect.Effect<void, ExchangeError> {
    return Effect.suspend(() => {
      const text = textOf(event)
      this.#told += sizeOf(event, text)
      if (this.#told > maxTold) return tooLarge
      if (event._tag === "Progress") this.#state = event.state
      if (event._tag === "Accepted" || text === undefined) return this.#onEvent(this.#redacted(event))
      const start = this.#texts.length
      const open = this.#texts.add(text)
      this.#wait({ event, start, text })
      if (this.#waiting.length > maxWaiting) return tooLarge
      const ready = this.#waiting.findIndex((spoken) => spoken.start + spoken.text.length > open)
      return this.#release(ready === -1 ? this.#waiting.length : ready)
    })
  }

  #wait(spoken: Spoken): void {
    const last = this.#waiting.at(-1)
    const mayJoin = last?.event._tag === "Progress" && spoken.event._tag === "Progress"
    if (mayJoin && (addsNothing(spoken.text) || this.#waiting.length === maxWaiting)) last.text += spoken.text
    else this.#waiting.push(spoken)
  }

  /** Tells the first of the events that wait. */
  #release(count: number): Effect.Effect<void> {
    const ready = this.#waiting.splice(0, count).map((spoken) => this.#spoken(spoken))
    return Effect.forEach(ready, (event) => this.#onEvent(event), { discard: true })
  }

  /** The newest state counts, also for a message that has waited. */
  #spoken({ event, start, text }: Spoken): PeerEvent {
    const shown = this.#texts.show(text, start)
    if (event._tag === "Artifact") return this.#redacted({ ...event, content: shown })
    return { _tag: "Progress", state: this.#state, ...(shown !== "" && { message: cut(shown) }) }
  }

  #redacted(event: PeerEvent): PeerEvent {
    if (event._tag !== "Artifact") return event
    const { content, mediaType, name } = event
    return {
      ...event,
      ...this.withoutSecrets(event),
      content: this.#redaction.json(content),
      mediaType: this.#redaction.text(mediaType),
      ...(name !== undefined && { name: this.#redaction.text(name) })
    }
  }
}
