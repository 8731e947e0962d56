import type { Plan, PlanRequest, PlanSummary } from "@bowline/client"

/** What the gateway says of a plan beside what it always has. */
export interface Facts {
  readonly caller: string
  readonly retries: number
  /** Null where a price is unknown. */
  readonly cost_usd: number | null
  /** As it came; null where an earlier version has stored the plan. Not in lists. */
  readonly request: PlanRequest | null
}

// The gateway has the shapes of its API.
// oxlint-disable-next-line typescript/no-unsafe-type-assertion
export const factsOf = (plan: Plan | PlanSummary): Facts => plan as Plan & Facts
