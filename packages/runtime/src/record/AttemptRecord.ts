import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { ProviderPart, ProviderRequest } from "../provider/Provider.ts"
import * as PromptDigest from "./PromptDigest.ts"

type Whole = Exclude<ProviderPart, { readonly _tag: "Heard" }>

/**
 * One attempt of a plan. `step` is 0 for a summary. `parts` is what its provider gave, in order: a number stands for so many pieces of text or reasoning that
 * readers were shown, which the plan's events have. Without `Finished` at its end the attempt has failed, or was cut off.
 */
export interface AttemptRecord {
  readonly type: "attempt"
  readonly step: number
  readonly attempt: number
  /** As `provider/model`. */
  readonly model: string
  readonly credential: string
  readonly prompt: PromptDigest.PromptDigest
  readonly parts: ReadonlyArray<number | Whole>
  readonly failure?: ProviderErrorReason
}

/** Collects what an attempt is, while its parts come. */
export class AttemptNotes {
  readonly #prompt: PromptDigest.PromptDigest
  readonly #isShown: boolean
  readonly #parts: Array<number | Whole> = []
  readonly #fragments = new Set<number>()
  #failure: ProviderErrorReason | undefined

  /** `isShown`: readers see its text. */
  constructor(request: Omit<ProviderRequest, "facts" | "model">, isShown: boolean) {
    this.#prompt = PromptDigest.of(request)
    this.#isShown = isShown
  }

  take(parts: ReadonlyArray<ProviderPart>): void {
    for (const part of parts) this.#take(part)
  }

  failed(reason: ProviderErrorReason): void {
    this.#failure = reason
  }

  record(attempt: number, model: string, credential: string): Omit<AttemptRecord, "step"> {
    const failure = this.#failure
    return {
      type: "attempt",
      attempt,
      model,
      credential,
      prompt: this.#prompt,
      parts: this.#parts,
      ...(failure !== undefined && { failure })
    }
  }

  #take(part: ProviderPart): void {
    const last = this.#parts.at(-1)
    switch (part._tag) {
      case "Heard":
        return
      case "TextDelta":
      case "ReasoningDelta":
        if (part.delta === "") return
        if (!this.#isShown) this.#join(part)
        else if (typeof last === "number") this.#parts[this.#parts.length - 1] = last + 1
        else this.#parts.push(1)
        return
      case "ToolCallFragment":
        // The timers need each of them, the answer its place.
        if (this.#fragments.has(part.call)) return
        this.#fragments.add(part.call)
        this.#parts.push(part)
        return
      case "ToolCall":
        // The provider's own id is random, and decides nothing.
        this.#parts.push({ ...part, id: "" })
        return
      default:
        this.#parts.push(part)
    }
  }

  /** Nobody saw the pieces: they are one. */
  #join(part: Extract<ProviderPart, { readonly _tag: "ReasoningDelta" | "TextDelta" }>): void {
    const last = this.#parts.at(-1)
    if (typeof last === "object" && last._tag === part._tag) {
      this.#parts[this.#parts.length - 1] = { ...part, delta: last.delta + part.delta }
    } else this.#parts.push(part)
  }
}
