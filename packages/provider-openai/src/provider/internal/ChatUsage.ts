import type { Usage } from "@bowline/domain/plan/Usage"
import { Predicate } from "effect"

const tokens = (value: unknown): number =>
  typeof value === "number" && Number.isFinite(value) ? Math.max(0, Math.trunc(value)) : 0

const detail = (value: unknown, name: string): number => (Predicate.isObject(value) ? tokens(value[name]) : 0)

/** `prompt_tokens` includes the cached ones, and `completion_tokens` those of reasoning. */
export const fromChatUsage = (usage: { readonly [key: PropertyKey]: unknown }): Usage => ({
  input_tokens: tokens(usage["prompt_tokens"]),
  output_tokens: tokens(usage["completion_tokens"]),
  cached_input_tokens: detail(usage["prompt_tokens_details"], "cached_tokens"),
  reasoning_tokens: detail(usage["completion_tokens_details"], "reasoning_tokens")
})
