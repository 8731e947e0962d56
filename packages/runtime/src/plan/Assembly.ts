import * as Usage from "@bowline/domain/plan/Usage"
import type { MessagePart } from "@bowline/domain/session/Message"
import type { FinishReason, ProviderPart } from "../provider/Provider.ts"
import type { PlanRun } from "./PlanRun.ts"

export type ToolCall = Extract<ProviderPart, { readonly _tag: "ToolCall" }>

/** Puts the pieces of one attempt together while they come, and shows them. */
export class Assembly {
  /** Reasoning and text, in the order in which they came. */
  readonly parts: Array<MessagePart> = []
  readonly calls: Array<ToolCall> = []
  /** Why other calls cannot be made. */
  readonly dropped: Array<string> = []
  /** Nothing until the provider has said that it is finished. */
  finish: FinishReason | undefined
  /** Whether a reader has seen a delta of it. */
  isShown = false
  readonly #run: PlanRun
  readonly #at: { readonly step: number; readonly attempt: number }
  readonly #provider: string

  constructor(run: PlanRun, attempt: number, provider: string) {
    this.#run = run
    this.#at = { step: run.steps, attempt }
    this.#provider = provider
  }

  take(part: ProviderPart): void {
    const { journal } = this.#run.given
    switch (part._tag) {
      case "TextDelta":
        if (part.delta === "") return
        this.#grow("text", part.delta)
        this.#run.partialText += part.delta
        return journal.emit({ event: "text.delta", data: { ...this.#at, delta: part.delta } })
      case "ReasoningDelta":
        if (part.delta === "") return
        this.#grow("reasoning", part.delta)
        return journal.emit({ event: "reasoning.delta", data: { ...this.#at, delta: part.delta } })
      case "ReasoningEnded":
        return this.#sign(part.signature)
      case "ToolCall":
        return void this.calls.push(part)
      case "CallDropped":
        return void this.dropped.push(part.reason)
      case "UsageReported":
        this.#run.attemptUsage = { ...this.#at, usage: Usage.sane(part.usage) }
        return
      case "Finished":
        this.finish = part.reason
        return
      case "ToolCallFragment":
        return
    }
  }

  #grow(type: "text" | "reasoning", delta: string): void {
    this.isShown = true
    const last = this.parts.at(-1)
    if (last?.type === type && !("signature" in last))
      this.parts[this.parts.length - 1] = { type, text: last.text + delta }
    else this.parts.push({ type, text: delta })
  }

  #sign(signature: string): void {
    const last = this.parts.at(-1)
    const isOpen = last?.type === "reasoning" && last.signature === undefined
    const signed = { type: "reasoning" as const, text: isOpen ? last.text : "", provider: this.#provider, signature }
    if (isOpen) this.parts[this.parts.length - 1] = signed
    else this.parts.push(signed)
  }
}
