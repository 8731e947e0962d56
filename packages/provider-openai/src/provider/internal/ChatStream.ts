import { type ProviderErrorReason, StreamCorrupt, StreamTruncated } from "@bowline/domain/provider/ProviderError"
import type { FinishReason, ProviderPart } from "@bowline/runtime/provider/Provider"
import { Predicate } from "effect"
import { Sse } from "effect/encoding"
import { CallAssembly } from "./CallAssembly.ts"
import { fromChatUsage } from "./ChatUsage.ts"

const finishReasons: Readonly<Record<string, FinishReason>> = {
  stop: "stop",
  tool_calls: "tool_calls",
  function_call: "tool_calls",
  length: "length",
  max_tokens: "length",
  content_filter: "content_filter",
  refusal: "refusal"
}

/** Characters of one event, however many writes it comes in. */
const maxEventSize = 8 * 1_024 * 1_024

const isText = (value: unknown): value is string => typeof value === "string" && value !== ""

/**
 * The state of one answer in the Chat Completions format: bytes in, parts out, without an effect, since this is where the
 * time of a plan goes.
 *
 *   open ──finish_reason──▶ finished ──[DONE], end of stream, or its loss──▶ over
 *     ├──[DONE] behind text, and no call──▶ over (inferred)
 *     └──error, corrupt, end of stream──▶ failed
 */
export class ChatStream {
  readonly #decoder = new TextDecoder()
  readonly #parser: Sse.Parser
  readonly #calls = new CallAssembly()
  readonly #failureOf: (error: unknown) => ProviderErrorReason
  #parts: Array<ProviderPart> = []
  #finish: FinishReason | undefined
  #hasText = false
  #hasRefusal = false
  #isOver = false
  #failure: ProviderErrorReason | undefined

  constructor(failureOf: (error: unknown) => ProviderErrorReason) {
    this.#failureOf = failureOf
    this.#parser = Sse.makeParser((event) => event._tag === "Event" && this.#take(event), { maxEventSize })
  }

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
      if (tooLarge !== undefined) this.#fail(new StreamCorrupt({ message: "The provider sent an event of over 8 MiB" }))
    }
    return this.#flush()
  }

  /** The stream has ended, or was lost for that reason. */
  end(lost?: ProviderErrorReason): ReadonlyArray<ProviderPart> {
    this.#settle(lost)
    return this.#flush()
  }

  #settle(lost?: ProviderErrorReason): void {
    if (this.#isOver) return
    this.#fail(
      lost ?? new StreamTruncated({ message: "The answer ended before the provider said that it is finished" })
    )
  }

  #flush(): ReadonlyArray<ProviderPart> {
    const parts = this.#parts
    this.#parts = []
    return parts
  }

  #fail(reason: ProviderErrorReason): void {
    // Whatever follows what finished the answer takes nothing back.
    if (this.#finish === undefined) this.#failure ??= reason
    else this.#close(this.#finish, false)
  }

  #close(reason: FinishReason, inferred: boolean): void {
    if (this.#isOver || this.#failure !== undefined) return
    this.#isOver = true
    this.#parts.push(...this.#calls.finish(), {
      _tag: "Finished",
      reason: reason === "stop" && this.#hasRefusal ? "refusal" : reason,
      inferred
    })
  }

  #take({ event, data }: Sse.Event): void {
    if (this.#isOver || this.#failure !== undefined) return
    if (data === "") return
    if (data.startsWith("[DONE]")) {
      if (this.#finish === undefined && this.#hasText && this.#calls.isEmpty) this.#close("stop", true)
      else this.#settle()
      return
    }
    const chunk = parse(data)
    if (!Predicate.isObject(chunk)) return this.#corrupt("what is not a JSON object")
    if (event === "error" || (chunk["error"] !== undefined && chunk["error"] !== null)) {
      return this.#fail(this.#failureOf(chunk))
    }
    this.#takeChoice(chunk["choices"])
    const usage = chunk["usage"]
    if (Predicate.isObject(usage)) this.#parts.push({ _tag: "UsageReported", usage: fromChatUsage(usage) })
  }

  #takeChoice(choices: unknown): void {
    if (choices === undefined || choices === null) return
    if (!Array.isArray(choices)) return this.#corrupt("choices that are no list")
    const choice: unknown = choices[0]
    if (choice === undefined) return
    if (!Predicate.isObject(choice)) return this.#corrupt("a choice that is no object")
    const delta = choice["delta"] ?? {}
    if (!Predicate.isObject(delta)) return this.#corrupt("a delta that is no object")
    this.#takeDelta(delta)
    const finish = choice["finish_reason"]
    if (isText(finish)) this.#finish ??= finishReasons[finish] ?? "other"
  }

  #takeDelta(delta: { readonly [key: PropertyKey]: unknown }): void {
    const reasoning = isText(delta["reasoning_content"]) ? delta["reasoning_content"] : delta["reasoning"]
    if (isText(reasoning)) this.#parts.push({ _tag: "ReasoningDelta", delta: reasoning })
    for (const name of ["content", "refusal"] as const) {
      const text = delta[name]
      if (isText(text)) {
        this.#hasText = true
        this.#hasRefusal ||= name === "refusal"
        this.#parts.push({ _tag: "TextDelta", delta: text })
      } else if (text !== undefined && text !== null && text !== "") this.#corrupt(`a ${name} that is no text`)
    }
    const calls = delta["tool_calls"]
    if (calls === undefined || calls === null) return
    if (!Array.isArray(calls)) return this.#corrupt("tool_calls that are no list")
    for (const call of calls) {
      if (this.#calls.add(call)) this.#parts.push({ _tag: "ToolCallFragment" })
      else this.#corrupt("a tool call that is no object")
    }
  }

  #corrupt(what: string): void {
    this.#fail(new StreamCorrupt({ message: `The provider sent ${what}` }))
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
