import type { Failure, Plan, PlanView } from "@bowline/client"

/** Why a completed plan stopped where it did. */
const stops: Readonly<Record<string, string>> = {
  stop: "It answered.",
  max_steps: "It answered with what it had: all its steps were used.",
  max_tool_calls: "It answered with what it had: all its tool calls were used.",
  max_total_tokens: "It answered with what it had: its tokens were used up.",
  max_cost: "It answered with what it had: its money was used up.",
  max_tokens: "The answer was cut at its greatest length.",
  content_filter: "The provider's filter stopped the answer.",
  refusal: "The model refused to answer.",
  pause: "The provider paused the answer.",
  loop: "The same calls gave the same results, so it was asked for an answer without tools."
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
  const { code, message, reason } = outcome.error
  return { code: reason === undefined ? code : `${code}: ${reason}`, words: message }
}

const aboutKey = new Set(["provider_auth", "provider_billing"])

/** Why a plan did not complete, in a few words for a list: `deadline in archive_search`, `provider_auth of openai-1`. */
export const reasonOf = ({ code, data, reason, stage }: Failure): string => {
  const what = reason ?? code
  const { credential, tool } = data ?? {}
  if (typeof tool === "string") return `${what} in ${tool}`
  if (reason === "deadline" && stage !== null) return `${what} in stage ${stage}`
  return aboutKey.has(code) && typeof credential === "string" ? `${what} of ${credential}` : what
}

/** What a plan waits for, in words; its state where it waits for nothing. */
export const stageWords = (state: Plan["state"], stage: string | null): string => {
  if (stage === "queue" || state === "queued") return "queued"
  return (
    {
      backoff: "waits to retry",
      tool: "calls tools",
      approval: "waits for approval",
      client: "waits for an answer",
      compaction: "compacts"
    }[stage ?? ""] ?? state
  )
}
