import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Duration, Effect, Struct } from "effect"
import type { EventRow } from "../../store/EventRow.ts"
import type { ReplicaId } from "../../store/LeaseStore.ts"
import { type AbandonedPlan, type Guard, type PlanStore, unanswered } from "../../store/PlanStore.ts"
import { gistOf, type Memory } from "./Memory.ts"
import { contentOf, waitsOf } from "./MemoryInboxReads.ts"
import type { PlanRecord, SessionRecord } from "./MemoryRecords.ts"

/** Of a plan's events those from its last step on. */
const tailOf = (events: ReadonlyArray<EventRow>): ReadonlyArray<EventRow> => {
  const step = events.findLastIndex(({ event }) => event === "step")
  return step === -1 ? [...events] : events.slice(step)
}

/** A plan that was just taken over, for the replica that has it now. */
const abandoned = (record: PlanRecord, { messages }: SessionRecord, guard: Guard, now: number): AbandonedPlan => ({
  plan: record.plan,
  owner: record.owner,
  guard,
  request: record.request,
  preferences: record.preferences,
  route: record.route,
  leftMs: record.endsAt - now,
  deaths: record.deaths,
  wokenBy: record.wokenBy,
  gist: gistOf(record),
  inbox: contentOf(record),
  waits: waitsOf(record),
  tail: tailOf(record.events),
  tasks: Array.from(
    record.tasks.values(),
    Struct.omit(["preset", "input", "finished_at", "error", "result", "reverted"])
  ),
  unanswered: unanswered(messages.filter(({ plan_id }) => plan_id === record.plan.plan_id))
})

/** What guards the next write of a plan. */
export const guardOf = ({ fence, plan, replica }: PlanRecord): Guard =>
  plan.state === "queued" ? { _tag: "Queued", replica, fence } : { _tag: "Held", fence }

/** Gives a plan to the replica, and the lease of its session where it runs. */
const take = (
  memory: Memory,
  record: PlanRecord,
  session: SessionRecord,
  replica: ReplicaId,
  expires: number,
  now: number
): void => {
  if (record.leftMs !== null) {
    record.endsAt = now + record.leftMs
    record.leftMs = null
    record.plan = { ...record.plan, deadline_at: fromMillis(record.endsAt) }
  }
  const isQueued = record.plan.state === "queued"
  const isDead = !record.isHandedOver && record.replica !== replica
  record.replica = replica
  record.fence = isQueued ? record.fence + 1 : memory.lease(session, replica, expires)
  if (!isQueued && isDead) record.deaths++
  record.isHandedOver = false
}

export const makeTakeOver =
  (memory: Memory): PlanStore["Service"]["takeOver"] =>
  (replica, leaseTtl, limit, forgotten = [], places = limit) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      const expires = now + Duration.toMillis(leaseTtl)
      memory.replicas.set(replica, expires)
      let taken = 0
      let woken = 0
      return Array.from(memory.open.values()).flatMap((record) => {
        const session = memory.sessions.get(record.plan.session_id)
        if (taken === limit || session === undefined) return []
        const isForgotten = record.plan.state === "queued" && forgotten.includes(record.plan.plan_id)
        if (!isForgotten && !memory.isLeft(record, session, replica, now)) return []
        // One that is to be aborted needs no place.
        if (record.leftMs !== null && record.abort === undefined && ++woken > places) return []
        taken++
        take(memory, record, session, replica, expires, now)
        return abandoned(record, session, guardOf(record), now)
      })
    })
