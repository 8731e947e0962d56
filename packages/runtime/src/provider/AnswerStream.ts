import { type ProviderErrorReason, StreamCorrupt, StreamTruncated } from "@bowline/domain/provider/ProviderError"
import { Predicate } from "effect"
import { Sse } from "effect/encoding"
import type { CallDropped, FinishReason, ProviderPart, ToolCall } from "./Provider.ts"

/** The fields of a JSON object from outside. */
export interface Fields {
  readonly [key: PropertyKey]: unknown
}

type Finished = Extract<ProviderPart, { readonly _tag: "Finished" }>

/** Characters of one event, however many writes it comes in. */
const maxEventSize = 8 * 1_024 * 1_024

/**
 * The state of one answer that comes as server-sent events: bytes in, parts out, without an effect, since this is where the
 * time of a plan goes. A wire says what its events mean, and gives the calls of the answer when it is over.
 *
 *   open ──finish──▶ finished ──settle, end of stream, or its loss──▶ over
 *     └──fail, corrupt, settle, end of stream──▶ failed
 */
export abstract class AnswerStream {
  readonly #decoder = new TextDecoder()
  readonly #parser = Sse.makeParser((event) => event._tag === "Event" && this.#take(event), { maxEventSize })
  #parts: Array<ProviderPart> = []
  #finish: Finished | undefined
  #model: string | undefined
  #isOver = false
  #failure: ProviderErrorReason | undefined
  readonly #failureOf: (error: unknown) => ProviderErrorReason

  /** `failureOf` classifies an error that comes in the midst of the answer. */
  constructor(failureOf: (error: unknown) => ProviderErrorReason) {
    this.#failureOf = failureOf
  }

  protected abstract take(chunk: Fields, event: string): void

  /** All calls that the answer holds, whole, and those that cannot be made. */
  protected abstract calls(): ReadonlyArray<ToolCall | CallDropped>

  /** The provider has said that the answer is finished: what may come still is its usage. */
  get isFinished(): boolean {
    return this.#finish !== undefined
  }

  /** All parts were given, and nothing that comes counts. */
  get isOver(): boolean {
    return this.#isOver
  }

  get failure(): ProviderErrorReason | undefined {
    return this.#failure
  }

  /** Parts that came before a failure are given. */
  feed(chunks: ReadonlyArray<Uint8Array>): ReadonlyArray<ProviderPart> {
    for (const chunk of chunks) {
      const tooLarge = this.#parser.feed(this.#decoder.decode(chunk, { stream: true }))
      if (tooLarge !== undefined) this.corrupt("an event of over 8 MiB")
    }
    return this.#flush()
  }

  /** The stream has ended, or was lost for that reason. */
  end(lost?: ProviderErrorReason): ReadonlyArray<ProviderPart> {
    this.settle(lost)
    return this.#flush()
  }

  protected push(part: ProviderPart): void {
    this.#parts.push(part)
  }

  /** The model that answers, by the provider's own account. */
  protected nameModel(model: unknown): void {
    if (typeof model === "string" && model !== "") this.#model = model
  }

  /** The first one counts. */
  protected finish(reason: FinishReason, inferred = false): void {
    this.#finish ??= { _tag: "Finished", reason, inferred }
  }

  /** The end marker of some wires, whatever stands in front of it. */
  protected done(): void {
    this.settle()
  }

  /** Nothing follows: what is finished is over, anything else has failed. */
  protected settle(lost?: ProviderErrorReason): void {
    this.fail(lost ?? new StreamTruncated({ message: "The answer ended before the provider said that it is finished" }))
  }

  protected fail(reason: ProviderErrorReason): void {
    // Whatever follows what finished the answer takes nothing back.
    if (this.#finish === undefined) this.#failure ??= reason
    else this.#close(this.#finish)
  }

  /** What the provider says of a failure. */
  protected error(error: unknown): void {
    this.fail(this.#failureOf(error))
  }

  protected corrupt(what: string): void {
    this.fail(new StreamCorrupt({ message: `The provider sent ${what}` }))
  }

  #close(finished: Finished): void {
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
