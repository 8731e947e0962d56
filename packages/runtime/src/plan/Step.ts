import type { MessagePart } from "@bowline/domain/session/Message"
import type { ProviderError } from "@bowline/domain/provider/ProviderError"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect } from "effect"
import * as Attempt from "../provider/Attempt.ts"
import type { FinishReason, Provider, ProviderPart, ProviderRequest } from "../provider/Provider.ts"
import type { PlanRun } from "./PlanRun.ts"

export type ToolCall = Extract<ProviderPart, { readonly _tag: "ToolCall" }>

/** What the provider said in an attempt that finished. */
export interface Answer {
  readonly finish: FinishReason
  readonly text: string
  /** Reasoning and text, in the order in which they came. */
  readonly parts: ReadonlyArray<MessagePart>
  readonly calls: ReadonlyArray<ToolCall>
}

/** Asks the provider once, and shows what it says while it says it. */
export const ask = Effect.fnUntraced(function* (
  provider: Provider["Service"],
  timers: Attempt.AttemptTimers,
  run: PlanRun,
  request: ProviderRequest
): Effect.fn.Return<Answer, ProviderError | StorageError> {
  const { journal } = run.given
  const at = { step: run.steps, attempt: 1 }
  const parts: Array<MessagePart> = []
  const calls: Array<ToolCall> = []
  const end: { finish: FinishReason } = { finish: "other" }

  const grow = (type: "text" | "reasoning", delta: string) => {
    const last = parts.at(-1)
    if (last?.type === type && !("signature" in last)) parts[parts.length - 1] = { type, text: last.text + delta }
    else parts.push({ type, text: delta })
  }

  const sign = (signature: string) => {
    const last = parts.at(-1)
    const text = last?.type === "reasoning" && last.signature === undefined ? last.text : undefined
    const signed = { type: "reasoning" as const, text: text ?? "", provider: provider.name, signature }
    if (text === undefined) parts.push(signed)
    else parts[parts.length - 1] = signed
  }

  const take = (part: ProviderPart) => {
    switch (part._tag) {
      case "TextDelta":
        if (part.delta === "") return
        grow("text", part.delta)
        run.partialText += part.delta
        return journal.emit({ event: "text.delta", data: { ...at, delta: part.delta } })
      case "ReasoningDelta":
        if (part.delta === "") return
        grow("reasoning", part.delta)
        return journal.emit({ event: "reasoning.delta", data: { ...at, delta: part.delta } })
      case "ReasoningEnded":
        return sign(part.signature)
      case "ToolCall":
        return void calls.push(part)
      case "UsageReported":
        run.attemptUsage = { ...at, usage: part.usage }
        return
      case "Finished":
        end.finish = part.reason
        return
      case "ToolCallFragment":
        return
    }
  }

  run.partialText = ""
  yield* Attempt.run(provider.stream(request), timers, (received) => {
    received.forEach(take)
    return journal.isCongested ? journal.flush : Effect.void
  }).pipe(run.within("provider"), Effect.ensuring(Effect.sync(() => run.countUsage())))
  const text = parts.reduce((all, part) => (part.type === "text" ? all + part.text : all), "")
  return { finish: end.finish, text, parts, calls }
})
