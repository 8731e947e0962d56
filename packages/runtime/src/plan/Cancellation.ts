import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, type PlanId, type PlanSummary } from "@bowline/domain/plan/Plan"
import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Deferred, Effect, type Scope } from "effect"
import type { Page, PageRequest } from "../store/Page.ts"
import type { Notices } from "../store/Notices.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { PlanStore } from "../store/PlanStore.ts"
import type { RemotePlans } from "../stream/RemotePlans.ts"
import type { RunningPlans } from "./RunningPlans.ts"

interface Services {
  readonly running: RunningPlans["Service"]
  readonly remote: RemotePlans["Service"]
  readonly store: PlanStore["Service"]
}

/** How long a cancel waits for the plan to be settled before it answers with the plan as it is. */
const settleTimeout = "30 seconds"

/** How long the first wait for news of the plan takes, in milliseconds; each later one takes twice as long. */
const firstWait = 100

/**
 * Aborts a plan that is not over (`cancelled`), whichever replica runs it, and waits until it is settled, 30 s at most. It connects
 * as a reader of the plan, so that the other replica sends a notice when the plan ends. It also polls, since a notice may be lost.
 */
export const cancel = Effect.fnUntraced(
  function* (
    { running, remote, store }: Services,
    caller: CallerName,
    id: PlanId
  ): Effect.fn.Return<void, NotFound | StorageError, Scope.Scope> {
    /** The plan may move to this process in the meantime, or from it to another one. */
    const isOver = Effect.gen(function* () {
      const here = running.find(id)
      here?.run.abort("cancelled")
      if (here !== undefined) yield* Deferred.await(here.live.closed)
      return isSettled(yield* store.get(caller, id))
    })
    if (yield* isOver) return
    const { news } = yield* remote.connect(id)
    yield* store.requestAbort(id, "cancelled")
    for (let wait = firstWait; ; wait *= 2) {
      yield* Effect.timeoutOption(news, wait)
      if (yield* isOver) return
    }
  },
  Effect.scoped,
  (cancelling) => Effect.timeoutOption(cancelling, settleTimeout)
)

/** How many plans one page of a list has. */
const pageSize = 200

/** The states of a plan that is not over. */
const openStates = ["queued", "running", "waiting"] as const

/** The plans of the session that are in these states; those that are older than the plan `before`, if it is given. */
export const openPlans = Effect.fnUntraced(function* (
  store: PlanStore["Service"],
  caller: CallerName,
  { before, session }: { readonly session: SessionId; readonly before?: PlanId },
  states: ReadonlyArray<(typeof openStates)[number]> = openStates
) {
  const open = new Set<PlanId>()
  // The newest plan comes first: older ones are behind it.
  const filter = { session, states, ...(before !== undefined && { behind: before }) }
  for (let page: PageRequest | undefined = { limit: pageSize }; page !== undefined;) {
    const { items, next }: Page<PlanSummary> = yield* store.list(caller, filter, page)
    for (const { plan_id } of items) open.add(plan_id)
    page = next === null ? undefined : { limit: pageSize, cursor: next }
  }
  return open
})

/** Has the plans of the session that are older than this one end (`superseded`) as soon as nobody reads them, wherever they run. */
export const outdate = Effect.fnUntraced(function* (
  notices: Notices["Service"],
  store: PlanStore["Service"],
  caller: CallerName,
  { plan_id: before, session_id: session }: { readonly plan_id?: PlanId; readonly session_id: SessionId }
) {
  const older = yield* openPlans(store, caller, { session, ...(before !== undefined && { before }) })
  if (older.size > 0) yield* notices.publish([{ _tag: "Outdated", plan_ids: Array.from(older) }])
  return older
})

/**
 * Ends the older plans of the session (`superseded`), wherever they run. If the database does not answer, the plan that supersedes
 * them waits for them instead, and the log says `supersede_failed`.
 */
export const supersede = (
  running: RunningPlans["Service"],
  store: PlanStore["Service"],
  caller: CallerName,
  { plan_id, session_id }: { readonly plan_id: PlanId; readonly session_id: SessionId }
): Effect.Effect<void> =>
  Effect.gen(function* () {
    for (const older of yield* openPlans(store, caller, { session: session_id, before: plan_id })) {
      running.find(older)?.run.abort("superseded")
      yield* store.requestAbort(older, "superseded")
    }
  }).pipe(
    retryWhileAway,
    Effect.catch(({ reason }) => Effect.logError("supersede_failed", reason.cause))
  )
