import type { Final } from "@bowline/domain/plan/Outcome"
import type { Preferences } from "@bowline/domain/plan/PlanRequest"
import type { FinishReason } from "../provider/Provider.ts"
import type { Progress } from "../store/PlanStore.ts"
import type { Allowance } from "./DailyAllowance.ts"
import type { Answer } from "./Continuation.ts"

type StopReason = Final["stop_reason"]

const stopReasons: Record<FinishReason, StopReason> = {
  stop: "stop",
  tool_calls: "stop",
  other: "stop",
  length: "max_tokens",
  content_filter: "content_filter",
  refusal: "refusal",
  pause: "pause"
}

type Limits = Pick<Preferences, "max_steps" | "max_tool_calls" | "max_total_tokens" | "max_cost_usd">

/** How much of its limits a plan has used. `knownCost` is in US dollars, without what has no price. */
type Used = Pick<Progress, "steps" | "tool_calls" | "usage"> & { readonly knownCost: number }

/** Which limit of what models cost is used up, if any: then neither a step with tools nor a summary is asked for. */
export const usedUp = (
  { knownCost, usage }: Omit<Used, "steps" | "tool_calls">,
  { max_cost_usd = Infinity, max_total_tokens = Infinity }: Omit<Limits, "max_steps" | "max_tool_calls">,
  left: Allowance
): StopReason | undefined => {
  if (usage.input_tokens + usage.output_tokens >= max_total_tokens || left.tokens <= 0) return "max_total_tokens"
  return knownCost >= max_cost_usd || left.costUsd <= 0 ? "max_cost" : undefined
}

/** Why the next step gets no tools, if so. */
export const withheld = (
  used: Used,
  limits: Limits,
  { mayCall, isLooping, left }: { readonly mayCall: boolean; readonly isLooping: boolean; readonly left: Allowance }
): StopReason | undefined => {
  if (!mayCall) return undefined
  if (isLooping) return "loop"
  if (used.tool_calls >= limits.max_tool_calls || left.toolCalls <= 0) return "max_tool_calls"
  return usedUp(used, limits, left) ?? (used.steps >= limits.max_steps ? "max_steps" : undefined)
}

/**
 * Whether an answer ends the plan, and then why; undefined where its calls are to be made. A step without tools stops for the
 * reason why it has none, unless the provider cut it short.
 */
export const stopReason = (
  { calls, finish }: Pick<Answer, "calls" | "finish">,
  withholding: StopReason | undefined
): StopReason | undefined => {
  if (calls.length > 0) return undefined
  const own = stopReasons[finish]
  return own === "stop" ? (withholding ?? own) : own
}
