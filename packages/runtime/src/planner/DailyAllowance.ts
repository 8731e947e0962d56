import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect } from "effect"
import type { PlansConfig } from "../config/PlansConfig.ts"
import type { PlanStore } from "../store/PlanStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import { PlannerError } from "./PlannerError.ts"
import type { PlanRun } from "./PlanRun.ts"

/** What is left of the day's budget of a plan's caller. */
export interface Allowance {
  readonly tokens: number
  readonly toolCalls: number
  /** What one request may have at most: more than that no day allows. */
  readonly tokensPerDay: number
}

const unlimited: Allowance = { tokens: Infinity, toolCalls: Infinity, tokensPerDay: Infinity }

const dayMs = 86_400_000

/**
 * Looks up what the plan's caller has left on this UTC day, behind all that the plan itself has used, and charges what the plan uses
 * from now on to this day. Fails if the plan has not asked its provider yet and no token is left.
 */
export const make = ({ budgetOf }: PlansConfig["Service"], store: PlanStore["Service"]) =>
  Effect.fnUntraced(function* (run: PlanRun): Effect.fn.Return<Allowance, PlannerError | StorageError> {
    const { caller, journal } = run.given
    const now = yield* Clock.currentTimeMillis
    run.chargeTo(now)
    const budget = budgetOf(caller)
    if (budget === undefined) return unlimited
    const day = fromMillis(now).slice(0, 10)
    yield* journal.flush
    const spent = yield* retryWhileAway(store.spent(caller, day))
    if (spent.tokens >= budget.tokens && run.progress.steps === 0) {
      const resets_at = fromMillis((Math.floor(now / dayMs) + 1) * dayMs)
      const message = `${caller} has used ${spent.tokens} of ${budget.tokens} tokens of this day. The next day begins at ${resets_at}`
      const data = { tokens_used: spent.tokens, tokens_per_day: budget.tokens, resets_at }
      return yield* new PlannerError({ code: "budget_exceeded", message, data })
    }
    return {
      tokens: budget.tokens - spent.tokens,
      toolCalls: Math.max(budget.tool_calls - spent.tool_calls, 0),
      tokensPerDay: budget.tokens
    }
  })
