import type { Failure, Final, StopReason } from "@bowline/domain/plan/Outcome"
import type { Usage } from "@bowline/domain/plan/Usage"
import { codeOf } from "../openai/OpenAiError.ts"
import type { ResponseEcho } from "./ResponseEcho.ts"
import { type Item, responseId, type ResponseRef } from "./ResponseItems.ts"

/** How far a plan has come. `usage` is that of all its attempts so far. */
export type Progress =
  | { readonly _tag: "Queued" }
  | { readonly _tag: "Running" }
  | { readonly _tag: "Paused"; readonly usage: Usage }
  | { readonly _tag: "Called"; readonly usage: Usage }
  | { readonly _tag: "Completed"; readonly final: Final; readonly usage: Usage }
  | { readonly _tag: "Failed"; readonly error: Failure; readonly usage: Usage }

const incompleteReasons: Record<StopReason, "max_output_tokens" | "content_filter" | undefined> = {
  stop: undefined,
  pause: undefined,
  max_steps: "max_output_tokens",
  max_tool_calls: "max_output_tokens",
  max_total_tokens: "max_output_tokens",
  max_cost: "max_output_tokens",
  max_tokens: "max_output_tokens",
  loop: "max_output_tokens",
  content_filter: "content_filter",
  refusal: "content_filter"
}

/** Ends that somebody wanted. */
const isCancelled = ({ reason }: Failure): boolean =>
  reason === "cancelled" || reason === "superseded" || reason === "disconnect"

export const usageOf = (usage: Usage) => ({
  input_tokens: usage.input_tokens,
  input_tokens_details: { cached_tokens: usage.cached_input_tokens },
  output_tokens: usage.output_tokens,
  output_tokens_details: { reasoning_tokens: usage.reasoning_tokens },
  total_tokens: usage.input_tokens + usage.output_tokens
})

const nothing = { status: "in_progress", error: null, incomplete_details: null, completed_at: null, usage: null }

const endOf = (created: number, progress: Progress) => {
  switch (progress._tag) {
    case "Queued":
      return { ...nothing, status: "queued" }
    case "Running":
      return nothing
    case "Paused":
      return { ...nothing, usage: usageOf(progress.usage) }
    // The client is to make calls: another response goes on with their results.
    case "Called":
      return { ...nothing, status: "completed", completed_at: created, usage: usageOf(progress.usage) }
    case "Completed": {
      const { usage } = progress
      const { duration_ms, stop_reason } = progress.final
      const reason = incompleteReasons[stop_reason]
      const ended = { ...nothing, usage: usageOf(usage) }
      return reason === undefined
        ? { ...ended, status: "completed", completed_at: created + Math.floor(duration_ms / 1_000) }
        : { ...ended, status: "incomplete", incomplete_details: { reason } }
    }
    case "Failed": {
      const { code, message } = progress.error
      return {
        ...nothing,
        status: isCancelled(progress.error) ? "cancelled" : "failed",
        error: { code: codeOf(code), message },
        usage: usageOf(progress.usage)
      }
    }
  }
}

/** A plan as a response of OpenAI's API. Everything in it follows from what is stored. */
export const make = (ref: ResponseRef, echo: ResponseEcho, progress: Progress, output: ReadonlyArray<Item>) => {
  const { created_at, input: _, labels: __, type: ___, ...repeated } = echo
  const { service_tier, temperature, top_p } = echo
  return {
    id: responseId(ref),
    object: "response" as const,
    created_at,
    ...endOf(created_at, progress),
    output,
    parallel_tool_calls: true,
    tool_choice: "auto" as const,
    truncation: "disabled" as const,
    prompt_cache_key: null,
    ...repeated,
    // Open Responses has numbers and a name here, where nobody has asked for any as well.
    temperature: temperature ?? 1,
    top_p: top_p ?? 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    top_logprobs: 0,
    service_tier: service_tier ?? "default",
    // Clients expect them. They are about what only OpenAI has.
    access_programs: null,
    moderation: null,
    prompt: null,
    prompt_cache_retention: null,
    ...(ref.leg > 1 && { previous_response_id: responseId({ ...ref, leg: ref.leg - 1 }) })
  }
}
export type ResponseObject = ReturnType<typeof make>
