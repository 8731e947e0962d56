import type { PeerEvent } from "@bowline/runtime/peer/PeerClient"
import { Effect } from "effect"
import { maxBytes, tooLarge } from "@bowline/runtime/http/Exchange"
import type { ExchangeError } from "@bowline/runtime/http/ExchangeError"
import type { Redaction } from "@bowline/runtime/http/Redaction"

/** A message, or an artifact that is one text. */
type Spoken = Extract<PeerEvent, { readonly _tag: "Progress" | "Artifact" }>

/** Characters of one message on the way. The last words are in the result, up to the limits of a result. */
const maxMessage = 65_536
/** Characters of all messages on the way of one call. */
const maxMessages = 4 * maxBytes
/** Characters that were told and may begin a secret: fewer than the shortest one, each in the longest escape. */
const maxContext = 64

const textOf = (event: PeerEvent): string | undefined => {
  if (event._tag === "Progress") return event.message
  return event._tag === "Artifact" && typeof event.content === "string" ? event.content : undefined
}

const isSpoken = (event: PeerEvent): event is Spoken => textOf(event) !== undefined

const cut = (text: string): string => (text.length <= maxMessage ? text : `${text.slice(0, maxMessage)}…`)

/**
 * Tells a caller what a peer says, without the secrets of the call. A secret may be split over texts that follow one another,
 * so they are searched as one text. A text that may end with the beginning of a secret waits for the next text.
 */
export class Disclosure {
  readonly #redaction: Redaction
  readonly #onEvent: (event: PeerEvent) => Effect.Effect<void>
  #waiting: ReadonlyArray<Spoken> = []
  #context = ""
  #state = ""
  #characters = 0

  constructor(redaction: Redaction, onEvent: (event: PeerEvent) => Effect.Effect<void>) {
    this.#redaction = redaction
    this.#onEvent = onEvent
  }

  /** Tells events in their order. Fails when the messages of the call are too large. */
  tell(events: ReadonlyArray<PeerEvent>): Effect.Effect<void, ExchangeError> {
    return Effect.forEach(events, (event) => this.#tellOne(event), { discard: true })
  }

  /** Tells what still waits, and gives the result of the call as it can be shown. */
  finish(content: string): Effect.Effect<string> {
    return Effect.suspend(() => {
      const { texts } = this.#search(content)
      return Effect.as(this.#release(this.#waiting.length, texts), texts.at(-1) ?? "")
    })
  }

  #tellOne(event: PeerEvent): Effect.Effect<void, ExchangeError> {
    return Effect.suspend(() => {
      if (event._tag === "Progress") {
        this.#state = event.state
        this.#characters += Math.min(event.message?.length ?? 0, maxMessage)
        if (this.#characters > maxMessages) return tooLarge
      }
      if (!isSpoken(event)) return this.#onEvent(this.#redacted(event))
      this.#waiting = [...this.#waiting, event]
      const { open, texts } = this.#search()
      return this.#release(open - 1, texts)
    })
  }

  #search(...more: ReadonlyArray<string>) {
    return this.#redaction.sequence([this.#context, ...this.#waiting.map((event) => textOf(event) ?? ""), ...more])
  }

  /** Tells the first of the events that wait. `texts` are what can be shown of the context, and then of each event. */
  #release(count: number, texts: ReadonlyArray<string>): Effect.Effect<void> {
    const ready = this.#waiting.slice(0, count)
    this.#waiting = this.#waiting.slice(ready.length)
    for (const event of ready) this.#context = (this.#context + (textOf(event) ?? "")).slice(-maxContext)
    return Effect.forEach(ready, (event, index) => this.#onEvent(this.#withText(event, texts[index + 1] ?? "")), {
      discard: true
    })
  }

  /** The newest state counts, also for a message that has waited. */
  #withText(event: Spoken, text: string): PeerEvent {
    if (event._tag === "Artifact") return this.#redacted({ ...event, content: text })
    return { _tag: "Progress", state: this.#state, ...(text !== "" && { message: cut(text) }) }
  }

  #redacted(event: PeerEvent): PeerEvent {
    return event._tag === "Artifact"
      ? { ...event, content: this.#redaction.json(event.content), mediaType: this.#redaction.text(event.mediaType) }
      : event
  }
}
