import { type ProviderErrorReason, StreamCorrupt, StreamTruncated } from "@bowline/domain/provider/ProviderError"
import { Predicate } from "effect"
import { Sse } from "effect/encoding"
import type { CallDropped, FinishReason, ProviderPart, ToolCall } from "./Provider.ts"

/** The fields of a JSON object from outside. */
export interface Fields {
  readonly [key: PropertyKey]: unknown
}

type Finished = Extract<ProviderPart, { readonly _tag: "Finished" }>

/** Characters of one event, however many writes it comes in, and of all texts, thoughts and arguments of an answer. */
const maxSize = 8 * 1_024 * 1_024

/**
 * The state of one answer that comes as server-sent events: bytes in, parts out. It runs no effects, since a plan spends most of
 * its time here. A wire says what its events mean, and gives the calls of the answer at its end.
 *
 *   open ──finish──▶ finished ──close, end of stream, or its loss──▶ over
 *     └──fail, corrupt, close, end of stream──▶ failed
 */
export abstract class AnswerStream {
  readonly #decoder = new TextDecoder()
  readonly #parser = Sse.makeParser((event) => event._tag === "Event" && this.#take(event), { maxEventSize: maxSize })
  #parts: Array<ProviderPart> = []
  #size = 0
  #finish: Finished | undefined
  #model: string | undefined
  #isOver = false
  #failure: ProviderErrorReason | undefined
  readonly #failureOf: (error: unknown) => ProviderErrorReason

  /** `failureOf` classifies an error that comes within the answer. */
  constructor(failureOf: (error: unknown) => ProviderErrorReason) {
    this.#failureOf = failureOf
  }

  protected abstract take(chunk: Fields, event: string): void

  /** All calls of the answer, and those that were dropped. */
  protected abstract calls(): ReadonlyArray<ToolCall | CallDropped>

  /** The provider has said that the answer is finished. Its usage may still come. */
  get isFinished(): boolean {
    return this.#finish !== undefined
  }

  /** The answer is complete. Later events do not count. */
  get isOver(): boolean {
    return this.#isOver
  }

  get failure(): ProviderErrorReason | undefined {
    return this.#failure
  }

  /** Gives the parts in these bytes, up to a failure. */
  feed(chunks: ReadonlyArray<Uint8Array>): ReadonlyArray<ProviderPart> {
    for (const chunk of chunks) {
      const tooLarge = this.#parser.feed(this.#decoder.decode(chunk, { stream: true }))
      if (tooLarge !== undefined) this.corrupt("an event of over 8 MiB")
    }
    return this.#flush()
  }

  /** The stream has ended, or the connection is lost for this reason. */
  end(lost?: ProviderErrorReason): ReadonlyArray<ProviderPart> {
    this.close(lost)
    return this.#flush()
  }

  protected push(part: ProviderPart): void {
    this.#parts.push(part)
    if (part._tag === "TextDelta" || part._tag === "ReasoningDelta") this.grow(part.delta)
  }

  /** The answer gets longer by this. */
  protected grow(piece: string): void {
    this.#size += piece.length
    if (this.#size > maxSize) this.corrupt("an answer of over 8 MiB")
  }

  /** The provider names the model that answers. */
  protected nameModel(model: unknown): void {
    if (typeof model === "string" && model !== "") this.#model = model
  }

  /** The first one counts. */
  protected finish(reason: FinishReason, inferred = false): void {
    this.#finish ??= { _tag: "Finished", reason, inferred }
  }

  /** The end marker of some wires has come. */
  protected done(): void {
    this.close()
  }

  /** Nothing follows: a finished answer is over, any other one has failed. */
  protected close(lost?: ProviderErrorReason): void {
    this.fail(lost ?? new StreamTruncated({ message: "The answer ended before the provider said that it is finished" }))
  }

  protected fail(reason: ProviderErrorReason): void {
    // A failure after the finish does not revoke the answer.
    if (this.#finish === undefined) this.#failure ??= reason
    else this.#complete(this.#finish)
  }

  /** The provider reports a failure. */
  protected error(error: unknown): void {
    this.fail(this.#failureOf(error))
  }

  protected corrupt(what: string): void {
    this.fail(new StreamCorrupt({ message: `The provider sent ${what}` }))
  }

  #complete(finished: Finished): void {
    if (this.#isOver || this.#failure !== undefined) return
    this.#isOver = true
    const named = this.#model === undefined ? finished : { ...finished, model: this.#model }
    this.#parts.push(...this.calls(), named)
  }

  #flush(): ReadonlyArray<ProviderPart> {
    const parts = this.#parts
    this.#parts = []
    return parts
  }

  #take({ event, data }: Sse.Event): void {
    if (this.#isOver || this.#failure !== undefined || data === "") return
    if (data.startsWith("[DONE]")) return this.done()
    const chunk = parse(data)
    if (Predicate.isObject(chunk)) this.take(chunk, event)
    else this.corrupt("what is not a JSON object")
  }
}

const parse = (data: string): unknown => {
  try {
    const value: unknown = JSON.parse(data)
    return value
  } catch {
    return undefined
  }
}
