import type { Final } from "@bowline/domain/plan/Outcome"
import { resolve } from "@bowline/domain/plan/PlanRequest"
import type { Observed, ObservedPlan } from "../scenario/Observed.ts"
import { areCallsSpent, isSpent, stepsOf } from "./Budgets.ts"
import type { PlanEnd } from "./PlanEnd.ts"
import { sameCalls } from "./TrueFailure.ts"

const wordOf: Readonly<Partial<Record<Final["stop_reason"], ReadonlyArray<string>>>> = {
  stop: ["stop", "tool_calls", "other"],
  max_tokens: ["length"],
  content_filter: ["content_filter"],
  refusal: ["refusal"],
  pause: ["pause"]
}

/** Whether the provider, or a limit, has ended the answer as the plan says. */
const hasStopped = (
  observed: Observed,
  plan: ObservedPlan,
  end: PlanEnd,
  reason: Final["stop_reason"],
  finish: string
) => {
  const { max_steps } = { ...resolve(plan.request).preferences, ...plan.budget }
  const { pairs, repeats } = observed.config.loop
  switch (reason) {
    case "max_steps":
      // An answer that does not match its schema is asked for once more, in a step of its own.
      // What somebody says behind an answer is asked in a step that stands for the same results.
      return (
        stepsOf(observed, plan).length +
          plan.inbox.length +
          (plan.request.preferences.response_format === undefined ? 0 : 1) >=
        max_steps
      )
    case "max_tool_calls":
      return areCallsSpent(observed, plan, end)
    case "max_total_tokens":
      return isSpent(observed, plan, end)
    // No scenario has a limit in money.
    case "max_cost":
      return false
    case "loop":
      return sameCalls(observed, plan) >= Math.min(pairs, repeats)
    default:
      return wordOf[reason]?.includes(finish) === true
  }
}

/** The last words of a finished answer of the provider are those of the plan's answer, and it stops for the reason that it names. */
export const isTrueAnswer = (
  observed: Observed,
  plan: ObservedPlan,
  end: PlanEnd,
  { stop_reason, text }: Final
): boolean => {
  // Nobody asks a provider for it: it is the result of a call.
  if (plan.request.call !== undefined) {
    return observed.calls.some(
      (call) => call.plan === plan.name && call.result?.state === "completed" && text.includes(call.result.content)
    )
  }
  const last = observed.attempts.findLast(
    ({ began, plan: of, replica, result }) =>
      of === plan.name && result === "finished" && replica === end.replica && began.order < end.order
  )
  return (
    last?.finish !== undefined &&
    last.said !== "" &&
    text.endsWith(last.said) &&
    hasStopped(observed, plan, end, stop_reason, last.finish)
  )
}
