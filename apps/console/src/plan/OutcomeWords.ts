import type { Plan, PlanView } from "@bowline/client"

/** Why a completed plan stopped where it did. */
const stops: Readonly<Record<string, string>> = {
  stop: "It answered.",
  max_steps: "It answered with what it had: all its steps were used.",
  max_tool_calls: "It answered with what it had: all its tool calls were used.",
  max_total_tokens: "It answered with what it had: its tokens were used up.",
  max_tokens: "The answer was cut at its greatest length.",
  content_filter: "The provider's filter stopped the answer.",
  refusal: "The model refused to answer.",
  pause: "The provider paused the answer.",
  loop: "The same calls gave the same results, so it was asked for an answer without tools."
}

const aborts: Readonly<Record<string, string>> = {
  disconnect: "Nobody read it any more.",
  deadline: "Its time was over.",
  cancelled: "Somebody cancelled it.",
  superseded: "A newer plan of the session took its place.",
  shutdown: "The gateway shut down."
}

const stages: Readonly<Record<string, string>> = {
  queue: "It waited for its session.",
  provider: "It waited for the provider.",
  backoff: "It waited to ask the provider again.",
  tool: "It waited for a tool.",
  approval: "It waited for a decision.",
  compaction: "It waited for a summary of the history."
}

/** How a plan ended: its code, and what that means. */
export interface OutcomeWords {
  readonly code: string
  readonly words: string
}

export const outcomeOf = (outcome: PlanView["outcome"]): OutcomeWords | undefined => {
  if (outcome === null) return undefined
  if (outcome.state === "completed") {
    const { stop_reason } = outcome.final
    return { code: stop_reason, words: stops[stop_reason] ?? "" }
  }
  const { code, message, reason, retryable, stage } = outcome.error
  const parts = [
    reason === undefined ? message : (aborts[reason] ?? message),
    stage === null ? "" : (stages[stage] ?? ""),
    retryable ? "The same question may succeed later." : ""
  ]
  return {
    code: reason === undefined ? code : `${code}: ${reason}`,
    words: parts.filter((part) => part !== "").join(" ")
  }
}

/** What a plan waits for, in words; its state where it waits for nothing. */
export const stageWords = (state: Plan["state"], stage: string | null): string => {
  if (stage === "queue" || state === "queued") return "queued"
  return (
    { backoff: "waits to retry", tool: "calls tools", approval: "waits for approval", compaction: "compacts" }[
      stage ?? ""
    ] ?? state
  )
}
