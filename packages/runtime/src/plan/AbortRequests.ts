import type { AbortReason } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { Effect, Latch } from "effect"
import type { ReplicaId } from "../store/LeaseStore.ts"
import { Notices, pollAfter } from "../store/Notices.ts"
import { PlanStore } from "../store/PlanStore.ts"

/** How soon, in milliseconds, a request is looked at again whose plan does not run here yet. */
const startPoll = 250

interface Plans {
  readonly isIdle: () => boolean
  /** Aborts the plan, if it runs here, and says whether it does. */
  readonly abort: (id: PlanId, reason: AbortReason) => boolean
}

/**
 * Aborts plans of this replica whose end was requested through the store: when a notice says so, and every few seconds in case it
 * was lost. Returns a function that has the requests read at once.
 */
export const listen = Effect.fnUntraced(function* (replica: ReplicaId, plans: Plans) {
  const store = yield* PlanStore
  const notices = yield* Notices
  const requested = Latch.makeUnsafe(true)
  yield* notices.subscribe(({ _tag }) => {
    if (_tag === "AbortRequested" || _tag === "ListeningChanged") requested.openUnsafe()
  })
  const read = Effect.gen(function* () {
    requested.closeUnsafe()
    const requests = plans.isIdle() ? [] : yield* store.abortRequests(replica)
    const isHere = requests.map(({ plan_id, reason }) => plans.abort(plan_id, reason))
    return isHere.includes(false) ? startPoll : pollAfter(notices)
  })
  yield* read.pipe(
    Effect.catchCause((cause) => Effect.as(Effect.logWarning("abort_requests_failed", cause), startPoll)),
    Effect.flatMap((wait) => Effect.timeoutOption(requested.await, wait)),
    Effect.forever,
    Effect.forkScoped
  )
  return () => requested.openUnsafe()
})
