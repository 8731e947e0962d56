import { BowlineError, type Plan } from "@bowline/client"
import { signal } from "@preact/signals"
import { bowline } from "../gateway/Gateway.ts"
import type { makeHearing } from "./Hearing.ts"

/** Whether asking again gives the same answer. A login that has expired is no refusal: the reading goes on behind it. */
const isRefusal = (error: unknown): error is BowlineError =>
  error instanceof BowlineError && (error.status === 400 || error.status === 403 || error.status === 404)

/** The gateway's record of a plan, as it was last asked for. */
export const makePlanRecord = (
  planId: string,
  { answer, lose }: Pick<ReturnType<typeof makeHearing>, "answer" | "lose">
) => {
  const plan = signal<Plan | undefined>(undefined)
  const problem = signal<BowlineError | undefined>(undefined)
  let asking: AbortController | undefined

  const fail = (error: unknown) => {
    if (isRefusal(error)) problem.value = error
    else lose()
  }

  /** Asks for it. An answer to an earlier request counts no longer. */
  const check = async (): Promise<void> => {
    asking?.abort()
    const own = new AbortController()
    asking = own
    try {
      const found = await bowline.plans.get(planId, { signal: own.signal })
      if (asking !== own) return
      plan.value = found
      problem.value = undefined
      answer()
    } catch (error) {
      if (asking === own) fail(error)
    }
  }

  return {
    plan,
    /** Why the gateway does not show the plan. */
    problem,
    check,
    /** What went wrong with a request for the plan: a refusal, or else a loss. */
    fail,
    stop: () => {
      asking?.abort()
      asking = undefined
    }
  }
}
