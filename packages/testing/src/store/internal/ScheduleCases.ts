import type { CallerName } from "@bowline/domain/caller/CallerName"
import { IdempotencyConflict, NameTaken, NotFound, TooManySchedules } from "@bowline/domain/plan/Refusal"
import { ScheduleId } from "@bowline/domain/unstable/schedule/Schedule"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import {
  type ClaimedSchedule,
  firingsKeptFor,
  maxFailures,
  maxSchedules,
  onTime,
  type ScheduleFields,
  ScheduleStore
} from "@bowline/runtime/unstable/store/ScheduleStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect, Option } from "effect"
import assert from "node:assert/strict"
import * as Given from "../Given.ts"
import type { StoreCase } from "../StoreCase.ts"

const minute = 60_000

const fields = (name: string): ScheduleFields => ({
  name,
  when: { every_ms: minute, from: Given.at },
  plan: { question: "Is the knot \u0000 safe?" },
  overlap: "skip",
  catch_up: "last",
  paused: false
})

const newId = Effect.map(UuidGenerator, (uuid) => ScheduleId.make(`schedule_${uuid()}`))

/** A schedule that is due since so many milliseconds, by the clock of the store. */
const given = Effect.fnUntraced(function* (sinceMs: number, owner?: CallerName, name: string = "every minute") {
  const store = yield* ScheduleStore
  const next = (yield* store.now) - sinceMs
  const by = owner ?? (yield* Given.newOwner)
  const schedule = yield* store.create(by, { ...fields(name), schedule_id: yield* newId, next })
  return { owner: by, schedule, id: schedule.schedule_id, next }
})

/** What is claimed of these owners. */
const claim = Effect.fnUntraced(function* (...owners: ReadonlyArray<CallerName>) {
  const { claimed, nextInMs } = yield* (yield* ScheduleStore).claim(10_000)
  return { claimed: claimed.filter(({ owner }) => owners.includes(owner)), nextInMs }
})

/** The one schedule of this owner that is due. */
const claimOne = Effect.fnUntraced(function* (owner: CallerName) {
  const [claimed] = (yield* claim(owner)).claimed
  assert(claimed !== undefined)
  return claimed
})

/** The firing of a schedule that was claimed; it is due again a minute later. */
const firingOf = (
  { course: { next }, schedule: { schedule_id }, version }: ClaimedSchedule,
  interrupts: ReadonlyArray<Given.Stored> = []
) => ({
  schedule_id,
  due: next,
  claimed: { version, course: onTime(next + minute) },
  interrupts: interrupts.map(({ plan }) => plan.plan_id)
})

const outcomesOf = Effect.fnUntraced(function* (owner: CallerName, id: ScheduleId) {
  const { items } = yield* (yield* ScheduleStore).firings(owner, id, { limit: 100 })
  return items.map(({ due_at, outcome, plan_id, reason }) => ({ due_at, outcome, plan_id, reason }))
})

export const scheduleCases: ReadonlyArray<StoreCase> = [
  {
    title: "keeps the schedules of a caller, with names that only that caller has, and shows them to nobody else",
    test: Effect.gen(function* () {
      const store = yield* ScheduleStore
      const { id, next, owner, schedule } = yield* given(-minute)
      const rest = { created_at: schedule.created_at, next_at: fromMillis(next), last_at: null, last_plan_id: null }
      assert.deepEqual(schedule, { schedule_id: id, ...fields("every minute"), ...rest, failures: 0 })
      assert.deepEqual(yield* store.get(owner, id), { schedule, version: 1 })
      const second = yield* given(-minute, owner, "another")
      assert.deepEqual(yield* store.list(owner, { limit: 1 }), {
        items: [second.schedule],
        next: (yield* store.list(owner, { limit: 1 })).next
      })
      const { next: cursor } = yield* store.list(owner, { limit: 1 })
      assert(cursor !== null)
      assert.deepEqual(yield* store.list(owner, { limit: 1, cursor }), { items: [schedule], next: null })
      assert(
        (yield* Given.failureOf(
          store.create(owner, { ...fields("another"), schedule_id: yield* newId, next })
        )) instanceof NameTaken
      )
      assert(
        (yield* Given.failureOf(store.change(owner, { schedule, version: 1 }, fields("another"), next))) instanceof
          NameTaken
      )

      const stranger = yield* Given.newOwner
      assert.equal((yield* given(-minute, stranger)).schedule.name, "every minute")
      assert.deepEqual(yield* Given.failureOf(store.get(stranger, id)), new NotFound({ what: "schedule" }))
      assert.deepEqual(
        yield* Given.failureOf(store.firings(stranger, id, { limit: 1 })),
        new NotFound({ what: "schedule" })
      )
      assert.deepEqual(yield* store.change(stranger, { schedule, version: 1 }, fields("theirs"), next), Option.none())
      assert.equal(yield* store.remove(stranger, id), false)
      assert.deepEqual(yield* store.get(owner, id), { schedule, version: 1 })
      assert.equal(yield* store.remove(owner, id), true)
      assert.equal(yield* store.remove(owner, id), false)
      assert.deepEqual((yield* store.list(owner, { limit: 9 })).items, [second.schedule])
    })
  },
  {
    title: `keeps at most ${maxSchedules} schedules of a caller`,
    test: Effect.gen(function* () {
      const store = yield* ScheduleStore
      const owner = yield* Given.newOwner
      const create = Effect.fnUntraced(function* (index: number) {
        return yield* store.create(owner, { ...fields(`${index}`), schedule_id: yield* newId, next: null })
      })
      yield* Effect.forEach(Array.from({ length: maxSchedules }).keys(), create, { concurrency: 4, discard: true })
      const failure = yield* Given.failureOf(create(maxSchedules))
      assert.deepEqual(failure, new TooManySchedules({ limit: maxSchedules }))
    })
  },
  {
    title: "gives a schedule that is due to one of two replicas, and says when the next one is due",
    test: Effect.gen(function* () {
      const { id, next, owner, schedule } = yield* given(10)
      const later = yield* given(-900_000, owner, "later")
      const [one, other] = yield* Effect.all([claim(owner), claim(owner)], { concurrency: "unbounded" })
      const [first, ...more] = [...one.claimed, ...other.claimed]
      assert(first !== undefined)
      assert.deepEqual(more, [])
      assert.deepEqual(
        { ...first, now: 0 },
        { schedule, version: 1, owner, course: onTime(next), lookAt: next, now: 0, open: [] }
      )
      const store = yield* ScheduleStore
      yield* store.postpone(first, 0)
      const again = yield* claimOne(owner)
      assert.equal(again.schedule.schedule_id, id)
      yield* store.postpone(again, minute)
      const { claimed, nextInMs } = yield* claim(owner)
      assert.deepEqual(claimed, [])
      assert(nextInMs !== null && nextInMs > 0 && nextInMs <= minute)
      yield* store.settle(again, onTime(null), [])
      assert.equal((yield* store.get(owner, id)).schedule.next_at, null)
      yield* store.remove(owner, later.id)
    })
  },
  {
    title: "writes a firing with its plan, once for each due time, and neither for a schedule that has changed",
    test: Effect.gen(function* () {
      const store = yield* ScheduleStore
      const plans = yield* PlanStore
      const { id, next, owner } = yield* given(2 * minute)
      const claimed = yield* claimOne(owner)
      const firing = firingOf(claimed)
      const [first, second] = [yield* Given.newPlan({ owner, firing }), yield* Given.newPlan({ owner, firing })]
      const created = yield* Effect.forEach([first, second], (plan) => Effect.exit(plans.create(plan, 32)), {
        concurrency: "unbounded"
      })
      const isStored = created.map(({ _tag }) => _tag === "Success")
      assert.equal(isStored.filter((is) => is).length, 1)
      const plan = isStored[0] === true ? first : second
      const lost = isStored[0] === true ? second : first
      assert.deepEqual(yield* Given.failureOf(plans.create(lost, 32)), new IdempotencyConflict())
      assert.deepEqual(yield* Given.failureOf(plans.get(owner, lost.plan_id)), new NotFound({ what: "plan" }))
      const started = { due_at: fromMillis(next), outcome: "started" as const, plan_id: plan.plan_id, reason: null }
      assert.deepEqual(yield* outcomesOf(owner, id), [started])
      const { schedule } = yield* store.get(owner, id)
      assert.deepEqual(
        [schedule.next_at, schedule.last_at, schedule.last_plan_id],
        [fromMillis(next + minute), fromMillis(next), plan.plan_id]
      )
      // It is due again, and its plan is not over.
      const again = yield* claimOne(owner)
      assert.deepEqual([again.course.next, again.open], [next + minute, [plan.plan_id]])
      const changed = yield* store.change(owner, again, { ...fields("every minute"), overlap: "queue" }, undefined)
      assert.equal(Option.getOrThrow(changed).overlap, "queue")
      assert.deepEqual(yield* store.change(owner, again, fields("late"), undefined), Option.none())
      // It is claimed at once with what was changed.
      assert.equal((yield* claimOne(owner)).schedule.overlap, "queue")
      const late = yield* Given.newPlan({ owner, firing: firingOf(again) })
      assert.deepEqual(yield* Given.failureOf(plans.create(late, 32)), new IdempotencyConflict())
      yield* store.settle(again, onTime(null), [{ due: next + minute, outcome: "skipped", reason: "late" }])
      assert.deepEqual(yield* outcomesOf(owner, id), [started])
      assert.equal(yield* store.remove(owner, id), true)
      const orphan = yield* Given.newPlan({ owner, firing: { schedule_id: id, due: next, interrupts: [] } })
      assert.deepEqual(yield* Given.failureOf(plans.create(orphan, 32)), new IdempotencyConflict())
      assert.equal((yield* plans.get(owner, plan.plan_id)).plan_id, plan.plan_id)
    })
  },
  {
    title: "fires by hand beside the due times, also twice in one millisecond",
    test: Effect.gen(function* () {
      const store = yield* ScheduleStore
      const { id, next, owner } = yield* given(-minute)
      const due = next - minute
      const [first, second] = [
        yield* Given.create({ owner, firing: { schedule_id: id, due, interrupts: [] } }),
        yield* Given.create({ owner, firing: { schedule_id: id, due, interrupts: [] } })
      ]
      assert.deepEqual(
        (yield* outcomesOf(owner, id)).map(({ due_at, plan_id }) => [due_at, plan_id]),
        [
          [fromMillis(due + 1), second.plan.plan_id],
          [fromMillis(due), first.plan.plan_id]
        ]
      )
      assert.equal((yield* store.get(owner, id)).schedule.next_at, fromMillis(next))
    })
  },
  {
    title: "aborts the plans that a firing interrupts, and no others",
    test: Effect.gen(function* () {
      const { owner } = yield* given(10)
      const claimed = yield* claimOne(owner)
      const [before, other, over] = [
        yield* Given.createHeld({ owner }),
        yield* Given.createHeld({ owner }),
        yield* Given.createHeld({ owner })
      ]
      yield* Given.settle(over)
      yield* Given.create({ owner, firing: firingOf(claimed, [before, over]) })
      const requested = Effect.fnUntraced(function* ({ plan }: Given.Stored) {
        return yield* (yield* PlanStore).abortRequests(plan.replica)
      })
      assert.deepEqual(yield* requested(before), [{ plan_id: before.plan.plan_id, reason: "superseded" }])
      assert.deepEqual([yield* requested(other), yield* requested(over)], [[], []])
    })
  },
  {
    title: "writes what becomes of due times without a plan, and pauses a schedule whose firings are refused in a row",
    test: Effect.gen(function* () {
      const store = yield* ScheduleStore
      const { id, next, owner } = yield* given(maxFailures * 2 * minute)
      let due = next
      const settle = Effect.fnUntraced(function* (outcome: "refused" | "skipped") {
        const claimed = yield* claimOne(owner)
        assert.equal(claimed.course.next, due)
        due += minute
        return yield* store.settle(claimed, onTime(due), [{ due: due - minute, outcome, reason: `${outcome} \u0000` }])
      })
      for (let count = 1; count < maxFailures; count++) assert.deepEqual(yield* settle("refused"), { isPaused: false })
      assert.equal((yield* store.get(owner, id)).schedule.failures, maxFailures - 1)
      assert.deepEqual(yield* settle("skipped"), { isPaused: false })
      // A start counts from 0 again.
      yield* Given.create({ owner, firing: firingOf(yield* claimOne(owner)) })
      due += minute
      for (let count = 1; count < maxFailures; count++) assert.deepEqual(yield* settle("refused"), { isPaused: false })
      assert.deepEqual(yield* settle("refused"), { isPaused: true })
      const { schedule, version } = yield* store.get(owner, id)
      assert.deepEqual([schedule.paused, schedule.next_at, schedule.failures], [true, null, maxFailures])
      assert.deepEqual((yield* claim(owner)).claimed, [])
      const { items, next: cursor } = yield* store.firings(owner, id, { limit: 2 })
      assert.deepEqual(
        items.map(({ due_at, outcome }) => [due_at, outcome]),
        [
          [fromMillis(due - minute), "refused"],
          [fromMillis(due - 2 * minute), "refused"]
        ]
      )
      assert(cursor !== null)
      const more = yield* store.firings(owner, id, { limit: 100, cursor })
      assert.deepEqual([more.items.length, more.next], [maxFailures * 2 - 2 + 1, null])
      const on = yield* store.change(owner, { schedule, version }, fields("every minute"), due)
      assert.deepEqual([Option.getOrThrow(on).failures, Option.getOrThrow(on).next_at], [0, fromMillis(due)])
    })
  },
  {
    title: "keeps how far a schedule has caught up, and takes what it caught up for looked at",
    test: Effect.gen(function* () {
      const store = yield* ScheduleStore
      const { next, owner } = yield* given(10 * minute)
      const claimed = yield* claimOne(owner)
      assert(claimed.now - claimed.lookAt >= 10 * minute)
      const course = { next: next + minute, left: 3, until: next + 9 * minute }
      yield* store.settle(claimed, course, [{ due: next, outcome: "missed", reason: "no replica ran" }])
      const again = yield* claimOne(owner)
      assert.deepEqual(again.course, course)
      assert(again.now - again.lookAt < minute)
    })
  },
  {
    title: "forgets firings after 90 days, and with their schedule",
    test: Effect.gen(function* () {
      const store = yield* ScheduleStore
      const { id, next, owner } = yield* given(10)
      yield* store.settle(yield* claimOne(owner), onTime(null), [{ due: next, outcome: "skipped", reason: "" }])
      const now = yield* store.now
      const sweep = Effect.fnUntraced(function* (at: number) {
        yield* (yield* SessionStore).sweep(fromMillis(at))
        return (yield* outcomesOf(owner, id)).length
      })
      assert.equal(yield* sweep(now + firingsKeptFor - minute), 1)
      assert.equal(yield* sweep(now + firingsKeptFor + minute), 0)
    })
  }
]
