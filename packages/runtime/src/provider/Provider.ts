import type { ProviderError } from "@bowline/domain/provider/ProviderError"
import type { Sampling } from "@bowline/domain/plan/PlanRequest"
import type { Message } from "@bowline/domain/session/Message"
import type { Usage } from "@bowline/domain/plan/Usage"
import { Context, type Stream } from "effect"
import type { Model } from "./ModelTable.ts"
import type { JsonSchema } from "../tool/Tool.ts"

export type { JsonSchema, Model }

/** A tool as the model sees it. */
export interface ToolDefinition {
  readonly name: string
  readonly description: string
  readonly inputSchema: JsonSchema
  /** The tool may destroy something. No wire has a field for it: providers that choose by rules look at it. */
  readonly approvalReason?: "sensitive"
}

/** `messages` are legal for every wire: each call has its one result directly after it (see `legalHistory`). */
export interface ProviderRequest {
  /** The provider's own name of the model, without the `provider/` in front. */
  readonly model: string
  /** What the table says about the model. */
  readonly facts?: Model | undefined
  readonly system: string
  readonly messages: ReadonlyArray<Pick<Message, "role" | "parts">>
  readonly tools: ReadonlyArray<ToolDefinition>
  /** `none`: the tools stay declared, and the model has to answer in text. */
  readonly toolChoice: "auto" | "none"
  /**
   * Tokens of answer at most. Without it the request has no limit, unless the wire requires one: then the adapter takes it from
   * `facts`.
   */
  readonly maxOutputTokens?: number | undefined
  /**
   * What the text of the answer has to match, for a model that can be held to it. The adapter leaves it out where its wire, or its provider's part of
   * JSON Schema, does not have it: the planner checks the answer all the same.
   */
  readonly outputSchema?: JsonSchema | undefined
  /** It has nothing that the table says that the model refuses. The adapter leaves out what its wire does not have. */
  readonly sampling?: Omit<Sampling, "max_tokens"> | undefined
}

/**
 * Why a provider ended its answer: `stop` is a whole answer, `tool_calls` one that asks for tools, `length` one that was cut at its
 * limit of tokens, `pause` one that the provider wants to continue in another attempt, `content_filter` and `refusal` one that it did
 * not want to give. `other` is any reason that the adapter does not know.
 */
export type FinishReason = "stop" | "tool_calls" | "length" | "content_filter" | "refusal" | "pause" | "other"

/**
 * One piece of an attempt.
 *
 * `ReasoningEnded` closes a run of reasoning, and `TextEnded` a run of text, with what the provider wants to see again with it.
 * `ToolCallFragment` says that the model writes a call: the timers need it. A `ToolCall` is whole; it comes after the last
 * content, directly before `Finished`, and `arguments` is the text that the model wrote. `call`, counted from 0, is the same in
 * both: the call stands among text and reasoning where its first fragment came. `CallDropped` takes the place of a call that
 * nobody can make; `reason` tells the model why, after "A tool call of yours was not made:". `Heard` means bytes without a part,
 * such as a comment that keeps the connection open. `UsageReported` may come several times: the last one counts, also when
 * the attempt fails after it.
 */
export type ProviderPart =
  | { readonly _tag: "TextDelta"; readonly delta: string }
  | { readonly _tag: "ReasoningDelta"; readonly delta: string }
  | { readonly _tag: "ReasoningEnded"; readonly signature: string }
  | { readonly _tag: "TextEnded"; readonly phase: string }
  | { readonly _tag: "ToolCallFragment"; readonly call: number }
  | {
      readonly _tag: "ToolCall"
      readonly call: number
      readonly id: string
      readonly name: string
      readonly arguments: string
    }
  | { readonly _tag: "CallDropped"; readonly reason: string }
  | { readonly _tag: "Heard" }
  | { readonly _tag: "UsageReported"; readonly usage: Usage }
  | {
      readonly _tag: "Finished"
      readonly reason: FinishReason
      readonly inferred: boolean
      /** The model that has answered, if the provider names it. */
      readonly model?: string
    }

/** A whole call of a tool, as the model wrote it. */
export type ToolCall = Extract<ProviderPart, { readonly _tag: "ToolCall" }>
/** A call that nobody can make, and why. */
export type CallDropped = Extract<ProviderPart, { readonly _tag: "CallDropped" }>

/** An LLM API. Contract: `docs/reference/provider.md`. */
export class Provider extends Context.Service<
  Provider,
  {
    /** What stands in front of the model in `provider/model`. */
    readonly name: string
    /** The server, if the provider is asked over HTTP: for the spans. */
    readonly server?: { readonly address: string; readonly port: number }
    /**
     * A digest of the key, and of whatever else it proves itself with, that does not lead to them: another key has another one, and so has
     * another salt. Without it a window binds whatever the key is.
     */
    readonly keyDigest?: (salt: string) => string
    /**
     * One attempt: one request, no retry. The stream either ends with exactly one `Finished` as its last part, or fails.
     * Interruption closes the connection at once.
     */
    readonly stream: (request: ProviderRequest) => Stream.Stream<ProviderPart, ProviderError>
  }
>()("@bowline/runtime/provider/Provider") {}
