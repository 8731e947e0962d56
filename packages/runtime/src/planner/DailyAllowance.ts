import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, DateTime, Effect } from "effect"
import type { DailyBudget, PlansConfig } from "../config/PlansConfig.ts"
import type { AllowanceRecord } from "../record/BeginRecord.ts"
import type { PlanStore, Spent } from "../store/PlanStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import { PlannerError } from "./PlannerError.ts"
import type { PlanRun } from "./PlanRun.ts"

/** What is left of the budget of a plan's caller, of the day and of the month. */
export interface Allowance {
  readonly tokens: number
  readonly toolCalls: number
  readonly costUsd: number
  /** What one request may have, and cost, at most: more than that no day, and no month, allows. */
  readonly tokensPerDay: number
  readonly mostUsd: number
}

const unlimited: Allowance = {
  tokens: Infinity,
  toolCalls: Infinity,
  costUsd: Infinity,
  tokensPerDay: Infinity,
  mostUsd: Infinity
}

/** What may be used up, of which time, and the names of what is told of it. */
const limits = [
  ["tokens", "day", "tokens", "tokens_used", "tokens_per_day"],
  ["cost_usd", "day", "US dollars", "cost_usd_used", "cost_usd_per_day"],
  ["month_cost_usd", "month", "US dollars", "cost_usd_used", "cost_usd_per_month"]
] as const

/** Why a plan may not begin, if its caller has nothing left. */
export const refusal = (caller: string, budget: DailyBudget, spent: Spent, now: number): PlannerError | undefined => {
  for (const [key, time, what, usedName, limitName] of limits) {
    const [used, most = Infinity] = [spent[key], budget[key]]
    if (used < most) continue
    const start = DateTime.startOf(DateTime.makeUnsafe(now), time)
    const resets_at = DateTime.formatIso(DateTime.add(start, time === "day" ? { days: 1 } : { months: 1 }))
    const message = `${caller} has used ${used} of ${most} ${what} of this ${time}. The next ${time} begins at ${resets_at}`
    const data = { [usedName]: used, [limitName]: most, resets_at }
    return new PlannerError({ code: "budget_exceeded", message, data })
  }
  return undefined
}

/** What a plan has used of what a budget counts. */
export const usedBy = ({ knownCost, progress: { usage } }: PlanRun) => ({
  tokens: usage.input_tokens + usage.output_tokens,
  costUsd: knownCost
})

/** What is left once the plan has used more. */
export const behind = (
  left: Allowance,
  before: ReturnType<typeof usedBy>,
  now: ReturnType<typeof usedBy>
): Allowance => ({
  ...left,
  tokens: left.tokens - (now.tokens - before.tokens),
  costUsd: left.costUsd - (now.costUsd - before.costUsd)
})

/**
 * Looks up what the plan's caller has left on this UTC day and in its month, behind all that the plan itself has used, and charges what the plan uses
 * from now on to this day. Fails if the plan has not asked its provider yet and no token, or no money, is left.
 */
export const make = ({ budgetOf }: PlansConfig["Service"], store: PlanStore["Service"]) =>
  Effect.fnUntraced(function* (run: PlanRun): Effect.fn.Return<Allowance, PlannerError | StorageError> {
    const { caller, journal } = run.given
    const now = yield* Clock.currentTimeMillis
    run.chargeTo(now)
    const budget = budgetOf(caller)
    if (budget === undefined) return unlimited
    yield* journal.flush
    const spent = yield* retryWhileAway(store.spent(caller, fromMillis(now).slice(0, 10)))
    const record: AllowanceRecord = { type: "allowance", budget, spent }
    journal.record(record)
    const refused = run.progress.steps === 0 ? refusal(caller, budget, spent, now) : undefined
    if (refused !== undefined) return yield* refused
    const { cost_usd = Infinity, month_cost_usd = Infinity, tokens, tool_calls } = budget
    return {
      tokens: tokens - spent.tokens,
      toolCalls: Math.max(tool_calls - spent.tool_calls, 0),
      costUsd: Math.min(cost_usd - spent.cost_usd, month_cost_usd - spent.month_cost_usd),
      tokensPerDay: tokens,
      mostUsd: Math.min(cost_usd, month_cost_usd)
    }
  })
