import type { AbortReason } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { type Cause, Effect, Latch } from "effect"
import type { ReplicaId } from "../store/LeaseStore.ts"
import { Notices, pollAfter } from "../store/Notices.ts"
import { PlanStore } from "../store/PlanStore.ts"

/** How soon, in milliseconds, a request is looked at again whose plan does not run here yet. */
const startPoll = 250

/** The waits, in milliseconds, before the next attempt to read the requests: each one is twice as long as the one before. */
const firstWait = 250
const longestWait = 5_000

interface Plans {
  readonly isIdle: () => boolean
  /** Whether plans are about to run here. */
  readonly isStarting: () => boolean
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
  let failures = 0
  const read = Effect.gen(function* () {
    requested.closeUnsafe()
    // Before it reads: the plan may be here, and no longer about to come, when the store answers.
    const isStarting = plans.isStarting()
    const requests = plans.isIdle() ? [] : yield* store.abortRequests(replica)
    failures = 0
    const isHere = requests.map(({ plan_id, reason }) => plans.abort(plan_id, reason))
    return isStarting && isHere.includes(false) ? startPoll : pollAfter(notices)
  })
  /** Warns once for each loss of the database. */
  const warn = (cause: Cause.Cause<unknown>) =>
    failures === 0 ? Effect.logWarning("abort_requests_failed", cause) : Effect.void
  yield* read.pipe(
    Effect.catchCause((cause) => Effect.map(warn(cause), () => Math.min(firstWait * 2 ** failures++, longestWait))),
    Effect.flatMap((wait) => Effect.timeoutOption(requested.await, wait)),
    Effect.forever,
    Effect.forkScoped
  )
  return () => requested.openUnsafe()
})
