import type { Usage } from "@bowline/domain/plan/Usage"
import type { Fields } from "@bowline/runtime/unstable/provider/AnswerStream"
import { Predicate } from "effect"

const tokens = (value: unknown): number =>
  typeof value === "number" && Number.isFinite(value) ? Math.max(0, Math.trunc(value)) : 0

const detail = (value: unknown, name: string): number => (Predicate.isObject(value) ? tokens(value[name]) : 0)

/** Both formats have the same fields under two names. The input includes cached tokens, the output those of reasoning. */
export const fromUsage = (usage: Fields, input: "prompt" | "input", output: "completion" | "output"): Usage => ({
  input_tokens: tokens(usage[`${input}_tokens`]),
  output_tokens: tokens(usage[`${output}_tokens`]),
  cached_input_tokens: detail(usage[`${input}_tokens_details`], "cached_tokens"),
  reasoning_tokens: detail(usage[`${output}_tokens_details`], "reasoning_tokens")
})
