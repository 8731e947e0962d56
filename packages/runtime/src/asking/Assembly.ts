import * as Usage from "@bowline/domain/plan/Usage"
import type { MessagePart, ToolCallPart } from "@bowline/domain/session/Message"
import type { FinishReason, ProviderPart, ToolCall } from "../provider/Provider.ts"

/** A call, and how many of the answer's other parts stand in front of it. */
export interface PlacedCall extends ToolCall {
  readonly at: number
}

/** The other parts of an answer and its calls, as they are `written`, in the order in which they came. */
export const inOrder = (
  parts: ReadonlyArray<MessagePart>,
  calls: ReadonlyArray<PlacedCall>,
  written: ReadonlyArray<ToolCallPart>
): ReadonlyArray<MessagePart> =>
  Array.from({ length: parts.length + 1 }, (_, at) => [
    ...written.filter((_, index) => calls[index]?.at === at),
    ...parts.slice(at, at + 1)
  ]).flat()

/** Assembles the answer of one attempt from its pieces, while they come. */
export class Assembly {
  /** Reasoning and text, in the order in which they came. */
  readonly parts: Array<MessagePart> = []
  readonly calls: Array<PlacedCall> = []
  /** Why other calls cannot be made. */
  readonly dropped: Array<string> = []
  /** Undefined until the provider has finished the answer. */
  finish: FinishReason | undefined
  /** The provider has not said itself that the answer is finished. */
  isInferred = false
  /** The model that has answered, if the provider has named it. */
  responseModel: string | undefined
  usage: Usage.Usage | undefined
  /** When the first content came, in milliseconds of the `Monotonic` clock. */
  firstContentAt: number | undefined
  /** How many parts stood in front of a call when it began. */
  readonly #places = new Map<number, number>()
  /** How many parts stand in front of a call that has begun. These parts do not grow any more. */
  #closed = 0
  readonly #provider: string

  /** `provider` is the name of the provider that signs the reasoning. */
  constructor(provider: string) {
    this.#provider = provider
  }

  get text(): string {
    return textOf(this.parts)
  }

  /** Whether the model has begun to write a call. */
  get isCalling(): boolean {
    return this.#places.size > 0
  }

  take(part: ProviderPart): void {
    switch (part._tag) {
      case "TextDelta":
        return this.#grow("text", part.delta)
      case "ReasoningDelta":
        return this.#grow("reasoning", part.delta)
      case "ReasoningEnded":
        return this.#sign(part.signature)
      case "TextEnded":
        return this.#endText(part.phase)
      case "ToolCall":
        return void this.calls.push({ ...part, at: this.#places.get(part.call) ?? this.parts.length })
      case "CallDropped":
        return void this.dropped.push(part.reason)
      case "UsageReported":
        this.usage = Usage.sane(part.usage)
        return
      case "Finished":
        this.finish = part.reason
        this.isInferred = part.inferred
        this.responseModel = part.model
        return
      case "Heard":
        return
      case "ToolCallFragment":
        if (!this.#places.has(part.call)) this.#places.set(part.call, (this.#closed = this.parts.length))
    }
  }

  #grow(type: "text" | "reasoning", delta: string): void {
    if (delta === "") return
    const last = this.parts.at(-1)
    const isOpen = this.parts.length > this.#closed && last?.type === type
    if (isOpen && !("signature" in last) && !("phase" in last))
      this.parts[this.parts.length - 1] = { type, text: last.text + delta }
    else this.parts.push({ type, text: delta })
  }

  #endText(phase: string): void {
    const last = this.parts.at(-1)
    if (last?.type === "text" && last.phase === undefined) this.parts[this.parts.length - 1] = { ...last, phase }
  }

  #sign(signature: string): void {
    const last = this.parts.at(-1)
    const isOpen = last?.type === "reasoning" && last.signature === undefined
    const signed = { type: "reasoning" as const, text: isOpen ? last.text : "", provider: this.#provider, signature }
    if (isOpen) this.parts[this.parts.length - 1] = signed
    else this.parts.push(signed)
  }
}

/** The text of an answer's parts, without its reasoning. */
export const textOf = (parts: ReadonlyArray<MessagePart>): string =>
  parts.reduce((all, part) => (part.type === "text" ? all + part.text : all), "")
