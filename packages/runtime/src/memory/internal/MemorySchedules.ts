import type { CallerName } from "@bowline/domain/caller/CallerName"
import { IdempotencyConflict, NameTaken, NotFound, TooManySchedules } from "@bowline/domain/plan/Refusal"
import type { Firing, Schedule, ScheduleId } from "@bowline/domain/unstable/schedule/Schedule"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect } from "effect"
import type { NewPlan } from "../../store/PlanStore.ts"
import {
  type ClaimedSchedule,
  claimedFor,
  type Course,
  maxFailures,
  maxSchedules,
  type NewFiring,
  onTime,
  type ScheduleStore
} from "../../store/ScheduleStore.ts"
import { type Memory, wake } from "./Memory.ts"
import type { ScheduleRecord } from "./MemoryRecords.ts"
import { newestFirst } from "./NewestFirst.ts"

/** What is due already has its turn at once: nobody takes it for something that was missed. */
const goOn = (record: ScheduleRecord, course: Course, now: number): void => {
  record.course = course
  record.lookAt = course.next === null ? null : Math.max(course.next, now)
  record.claimedUntil = 0
}

const toSchedule = ({ course, fields, ...record }: ScheduleRecord): Schedule => ({
  schedule_id: record.schedule_id,
  ...fields,
  created_at: record.created_at,
  next_at: course.next === null ? null : fromMillis(course.next),
  last_at: record.last_at,
  last_plan_id: record.last_plan_id,
  failures: record.failures
})

const openOf = (memory: Memory, { open }: ScheduleRecord) => open.filter((id) => memory.open.has(id))

/** The schedule of this owner, if it is there. */
const find = (memory: Memory, owner: CallerName, id: ScheduleId): ScheduleRecord | undefined => {
  const record = memory.schedules.get(id)
  return record?.owner === owner ? record : undefined
}

/** The schedule, if it is as it was claimed. */
const asClaimed = (
  memory: Memory,
  { course: { next }, schedule, version }: ClaimedSchedule
): ScheduleRecord | undefined => {
  const record = memory.schedules.get(schedule.schedule_id)
  return record?.version === version && record.course.next === next ? record : undefined
}

const notFound = Effect.fail(new NotFound({ what: "schedule" }))

/** Looks whether the due time may be fired, and writes nothing: what is returned writes its firing. */
export const prepareFiring = (
  memory: Memory,
  { caller, plan_id }: NewPlan,
  { claimed, due, interrupts, schedule_id }: NewFiring,
  now: number
): Effect.Effect<() => void, IdempotencyConflict> => {
  const record = find(memory, caller, schedule_id)
  if (record === undefined) return Effect.fail(new IdempotencyConflict())
  const isAsClaimed = claimed === undefined || (claimed.version === record.version && record.course.next === due)
  if (!isAsClaimed || (claimed !== undefined && record.firings.has(due))) return Effect.fail(new IdempotencyConflict())
  return Effect.succeed(() => {
    let at = due
    // Somebody else has fired it in the same millisecond.
    while (record.firings.has(at)) at++
    record.firings.set(at, {
      due_at: fromMillis(at),
      fired_at: fromMillis(now),
      plan_id,
      outcome: "started",
      reason: null
    })
    record.last_at = fromMillis(due)
    record.last_plan_id = plan_id
    record.failures = 0
    record.open = [...openOf(memory, record), plan_id]
    if (claimed !== undefined) goOn(record, claimed.course, now)
    for (const id of interrupts) {
      const plan = memory.open.get(id)
      if (plan === undefined) continue
      plan.abort ??= "superseded"
      wake(plan, "abort")
    }
  })
}

export const makeScheduleStore = (memory: Memory): ScheduleStore["Service"] => {
  const hasName = (owner: CallerName, name: string, except?: ScheduleId) =>
    Array.from(memory.schedules.values()).some(
      (record) => record.owner === owner && record.fields.name === name && record.schedule_id !== except
    )
  return {
    now: Clock.currentTimeMillis,
    create: Effect.fnUntraced(function* (owner, { next, schedule_id, ...fields }) {
      const now = yield* Clock.currentTimeMillis
      if (hasName(owner, fields.name)) return yield* new NameTaken()
      const had = Array.from(memory.schedules.values()).filter((record) => record.owner === owner)
      if (had.length >= maxSchedules) return yield* new TooManySchedules({ limit: maxSchedules })
      const record: ScheduleRecord = {
        schedule_id,
        owner,
        ordinal: memory.nextOrdinal(),
        created_at: fromMillis(now),
        fields,
        version: 1,
        course: onTime(next),
        lookAt: next,
        claimedUntil: 0,
        last_at: null,
        last_plan_id: null,
        failures: 0,
        open: [],
        firings: new Map()
      }
      memory.schedules.set(schedule_id, record)
      return toSchedule(record)
    }),
    get: (owner, id) =>
      Effect.suspend(() => {
        const record = find(memory, owner, id)
        return record === undefined
          ? notFound
          : Effect.succeed({ schedule: toSchedule(record), version: record.version })
      }),
    list: (owner, page) =>
      Effect.sync(() =>
        newestFirst(
          Array.from(memory.schedules.values()).filter((record) => record.owner === owner),
          page,
          toSchedule
        )
      ),
    change: (owner, { schedule: { schedule_id }, version }, fields, next) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const record = find(memory, owner, schedule_id)
        if (record?.version !== version) return Effect.succeedNone
        if (hasName(owner, fields.name, schedule_id)) return Effect.fail(new NameTaken())
        record.fields = fields
        record.version++
        record.claimedUntil = 0
        if (next !== undefined) {
          record.failures = 0
          goOn(record, onTime(next), now)
        }
        return Effect.succeedSome(toSchedule(record))
      }),
    remove: (owner, id) => Effect.sync(() => find(memory, owner, id) !== undefined && memory.schedules.delete(id)),
    claim: (limit) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const waiting = Array.from(memory.schedules.values()).flatMap((record) =>
          record.lookAt === null ? [] : [{ record, from: Math.max(record.lookAt, record.claimedUntil) }]
        )
        const due = waiting
          .filter(({ from }) => from <= now)
          .toSorted((a, b) => (a.record.course.next ?? 0) - (b.record.course.next ?? 0))
        const claimed = due.slice(0, limit).flatMap(({ record }): ReadonlyArray<ClaimedSchedule> => {
          const { course, lookAt, owner, version } = record
          const { next } = course
          if (next === null || lookAt === null) return []
          record.claimedUntil = now + claimedFor
          const open = openOf(memory, record)
          return [{ schedule: toSchedule(record), version, owner, course: { ...course, next }, lookAt, now, open }]
        })
        const later = waiting.flatMap(
          ({ record: { claimedUntil, lookAt } }) => Math.max(lookAt ?? 0, claimedUntil) - now
        )
        return { claimed, nextInMs: later.length === 0 ? null : Math.max(Math.min(...later), 0) }
      }),
    postpone: (claimed, ms) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const record = asClaimed(memory, claimed)
        if (record === undefined) return
        record.claimedUntil = 0
        record.lookAt = now + ms
      }),
    settle: (claimed, course, ends) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const record = asClaimed(memory, claimed)
        if (record === undefined) return { isPaused: false }
        const refused = ends.filter(({ outcome }) => outcome === "refused").length
        record.failures += refused
        const isPaused = refused > 0 && record.failures >= maxFailures
        if (isPaused) record.fields = { ...record.fields, paused: true }
        goOn(record, isPaused ? onTime(null) : course, now)
        for (const { due, outcome, reason } of ends) {
          if (record.firings.has(due)) continue
          record.firings.set(due, {
            due_at: fromMillis(due),
            fired_at: fromMillis(now),
            plan_id: null,
            outcome,
            reason
          })
        }
        return { isPaused }
      }),
    firings: (owner, id, { cursor = Infinity, limit }) =>
      Effect.suspend(() => {
        const record = find(memory, owner, id)
        if (record === undefined) return notFound
        const found = Array.from(record.firings)
          .filter(([due]) => due < cursor)
          .toSorted(([a], [b]) => b - a)
        const items = found.slice(0, limit).map(([, firing]): Firing => firing)
        return Effect.succeed({ items, next: found.length > limit ? (found[limit - 1]?.[0] ?? null) : null })
      })
  }
}
