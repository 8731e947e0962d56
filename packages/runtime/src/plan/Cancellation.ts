import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, type PlanId } from "@bowline/domain/plan/Plan"
import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Deferred, Effect, Schedule } from "effect"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { PlanStore } from "../store/PlanStore.ts"
import type { RunningPlans } from "./RunningPlans.ts"

/** How long a cancel waits for the plan to be settled before it answers with the plan as it is. */
const settleTimeout = "30 seconds"

/** Aborts a plan that is not over (`cancelled`), wherever it runs, and waits until it is settled, 15 s at most. */
export const cancel = Effect.fnUntraced(function* (
  running: RunningPlans["Service"],
  store: PlanStore["Service"],
  caller: CallerName,
  id: PlanId
): Effect.fn.Return<void, NotFound | StorageError> {
  /** It may come to this process meanwhile, or go from it to another one. */
  const isOver = Effect.gen(function* () {
    const here = running.find(id)
    here?.run.abort("cancelled")
    if (here !== undefined) yield* Deferred.await(here.live.closed)
    if (isSettled(yield* store.get(caller, id))) return true
    yield* store.requestAbort(id, "cancelled")
    return false
  })
  yield* isOver.pipe(
    Effect.repeat({ until: (over) => over, schedule: Schedule.spaced("100 millis") }),
    Effect.timeoutOption(settleTimeout)
  )
})

/**
 * Ends the older plans of the session (`superseded`), wherever they run. Where the database does not say which, the log says so: the
 * plan that supersedes them waits for them.
 */
export const supersede = (
  running: RunningPlans["Service"],
  store: PlanStore["Service"],
  caller: CallerName,
  { plan_id, session_id }: { readonly plan_id: PlanId; readonly session_id: SessionId }
): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { items } = yield* store.list(caller, { session: session_id }, { limit: 200 })
    const own = items.findIndex((plan) => plan.plan_id === plan_id)
    for (const older of own === -1 ? [] : items.slice(own + 1)) {
      if (isSettled(older)) continue
      running.find(older.plan_id)?.run.abort("superseded")
      yield* store.requestAbort(older.plan_id, "superseded")
    }
  }).pipe(
    retryWhileAway,
    Effect.catch(({ reason }) => Effect.logError("supersede_failed", reason.cause))
  )
