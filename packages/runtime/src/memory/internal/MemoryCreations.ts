import { InvalidRequest, SessionBusy } from "@bowline/domain/plan/Refusal"
import type { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Duration, Effect } from "effect"
import { fromEvents } from "../../store/EventRow.ts"
import { gone, idsOf, idsTold, sessionQuotaExceeded } from "../../store/FileStore.ts"
import { PlanExists, planOf } from "../../store/Idempotency.ts"
import { type NewPlan, notLast, type PlanStore } from "../../store/PlanStore.ts"
import { newPrior } from "../../store/PriorSummaries.ts"
import { summary } from "../../store/StoredAgent.ts"
import { makePlan, makeSession, type Memory } from "./Memory.ts"
import { append, apply } from "./MemoryChanges.ts"
import type { PlanRecord, SessionRecord } from "./MemoryRecords.ts"
import { prepareFiring } from "./MemorySchedules.ts"
import { addWebhooks } from "./MemoryWebhooks.ts"
import { dropReplaced } from "./MemorySessions.ts"

/** How long a replica counts as alive before its first renewal. */
const firstBreath = Duration.seconds(10)

const notNew = new InvalidRequest({
  issues: [{ path: ["history"], message: "Expected no history: the session is there already, and has its own" }]
})

/** Whether the session takes one more plan. */
const refusal = (open: ReadonlySet<PlanRecord>, { request }: NewPlan, maxQueue: number): SessionBusy | undefined => {
  if (request.preferences.on_busy === "reject" && open.size > 0) {
    return new SessionBusy({ message: "The session has a plan that is not over" })
  }
  // One of them has the session, or is about to.
  return open.size > maxQueue ? new SessionBusy({ message: `${maxQueue} plans wait for the session` }) : undefined
}

/** Adds to the session what comes with the plan besides its question. */
const extend = (session: SessionRecord, { plan_id, request, messages }: NewPlan, prior: string, createdAt: string) => {
  session.last_active_at = createdAt
  for (const agent of request.agents) session.agents.set(agent.name, summary(agent))
  for (const message of messages) append(session, plan_id, message, createdAt)
  if (prior !== "") session.priors.push(prior)
}

/** Gives a session that is free to its new plan, and returns the fence. */
const leaseTo = (
  memory: Memory,
  record: PlanRecord,
  session: SessionRecord,
  { leaseTtl, replica }: NewPlan,
  now: number
): number | undefined => {
  if (leaseTtl === undefined || session.open.size > 0 || memory.hasLease(session, now)) return undefined
  const fence = memory.lease(session, replica, now + Duration.toMillis(leaseTtl))
  apply(memory, record, session, { _tag: "Held", fence }, fromMillis(now))
  return fence
}

/**
 * Looks whether the plan may be created, and writes nothing: what is returned creates it, before anything else is written. `before` is over in the
 * same write.
 */
export const prepare = Effect.fnUntraced(function* (
  memory: Memory,
  plan: NewPlan,
  maxQueue: number,
  before?: PlanRecord
) {
  const { idempotency, caller, request, plan_id } = plan
  const createdAt = fromMillis(plan.createdAt)
  const taken = idempotency === null ? undefined : memory.findKey(caller, idempotency.key, createdAt)
  if (idempotency !== null && taken !== undefined) {
    return yield* new PlanExists({ plan_id: yield* planOf(taken, idempotency) })
  }
  const known = request.session_id === undefined ? undefined : memory.findSession(caller, request.session_id)
  if (known !== undefined && plan.messages.length > 0) return yield* notNew
  const { follows } = plan
  if (follows !== undefined && known?.plans.has(follows) === true && Array.from(known.plans).at(-1) !== follows) {
    return yield* notLast
  }
  const session = known ?? makeSession(memory, plan)
  const busy = refusal(before === undefined ? session.open : session.open.difference(new Set([before])), plan, maxQueue)
  if (busy !== undefined) return yield* busy
  const now = yield* Clock.currentTimeMillis
  const fire = plan.firing === undefined ? undefined : yield* prepareFiring(memory, plan, plan.firing, now)
  const prior = yield* Effect.fromResult(newPrior(session, request.prior_summary ?? ""))
  const asked = idsOf(request.question_parts)
  const isThere = (id: FileId) => memory.files.get(id)?.file !== undefined && memory.files.get(id)?.owner === caller
  if (!asked.every(isThere)) return yield* gone
  const files = [...asked, ...idsTold(plan.messages).filter(isThere)]
  const { filesQuota = Infinity } = plan
  const all = Array.from(session.files.union(new Set(files)), (id) => memory.files.get(id)?.file?.bytes ?? 0)
  const bytes = all.reduce((sum, size) => sum + size, 0)
  if (files.length > 0 && bytes > filesQuota) return yield* sessionQuotaExceeded(filesQuota)
  return () => {
    memory.add(session)
    if (!memory.replicas.has(plan.replica)) {
      memory.replicas.set(plan.replica, now + Duration.toMillis(firstBreath))
    }
    const dropped = plan.replaces ? dropReplaced(memory, session, plan.echo) : []
    extend(session, plan, prior, createdAt)
    for (const id of files) session.files.add(id)
    const record = makePlan(memory, plan, session, now)
    const created = known === undefined
    const { external_session_id, session_id } = session
    record.events.push(...fromEvents(1, createdAt, [{ event: "session", data: { external_session_id, created } }]))
    memory.plans.set(plan_id, record)
    memory.takeKey(plan)
    fire?.()
    addWebhooks(memory, plan, before?.plan.plan_id)
    const fence = leaseTo(memory, record, session, plan, now)
    session.plans.add(plan_id)
    session.open.add(record)
    memory.open.set(plan_id, record)
    memory.grow(session, { ...request, history: plan.messages, echo: plan.echo })
    memory.touch(session)
    return { session_id, external_session_id, created, fence, dropped }
  }
})

export const makeCreate =
  (memory: Memory): PlanStore["Service"]["create"] =>
  (plan, maxQueue) =>
    Effect.map(prepare(memory, plan, maxQueue), (create) => create())
