import type { NewEntry } from "@bowline/domain/plan/Inbox"
import type { EntryId } from "@bowline/domain/plan/Outcome"
import { EntryRefused } from "@bowline/domain/plan/Refusal"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import type { PlanChange } from "@bowline/runtime/unstable/store/PlanStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { Effect, Option } from "effect"
import assert from "node:assert/strict"
import { LeaseTime, type StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

/** Before the clock of any store. */
const past = "1969-12-31T23:59:59.000Z"

/** Ends all waits whose time is over: other tests may share the store. */
const expire = Effect.gen(function* () {
  const { expire } = yield* InboxStore
  const plans = new Set<PlanId>()
  for (;;) {
    const expired = yield* expire
    for (const plan of expired.plans) plans.add(plan)
    if (!expired.isMore) return plans
  }
})

const codeOf = Effect.fnUntraced(function* (...given: Parameters<typeof Given.accepting>) {
  const failure = yield* Given.failureOf((yield* InboxStore).accept(yield* Given.accepting(...given)))
  assert(failure instanceof EntryRefused)
  return failure.code
})

export const waitCases: ReadonlyArray<StoreCase> = [
  {
    title: "ends waits whose time is over, once, and refuses what comes later",
    test: Effect.gen(function* () {
      const inboxes = yield* InboxStore
      const held = yield* Given.createHeld()
      const { plan_id } = held.plan
      const [over, settled, open] = [yield* Given.newTask, yield* Given.newTask, yield* Given.newTask]
      const approve = (task_id: typeof over): NewEntry => ({ type: "decision", task_id, decision: "approve" })
      yield* Given.write(held, [
        Given.waitOpened(over, { expires_at: past }),
        Given.waitOpened(settled, { expires_at: past }),
        Given.waitOpened(open)
      ])
      yield* inboxes.accept(yield* Given.accepting(plan_id, approve(settled)))
      yield* expire
      const [content] = yield* inboxes.read([{ plan_id, seen: 0 }])
      assert.equal(content?.count, 2)
      const isExpired = (id: typeof over) =>
        content.settlements.find(({ task_id }) => task_id === id)?.given === undefined
      assert.equal(content.settlements.length, 2)
      assert.deepEqual([over, settled].map(isExpired), [true, false])
      assert.equal((yield* expire).has(plan_id), false)
      assert.equal(yield* codeOf(plan_id, approve(over)), "task_settled")
      assert.equal((yield* inboxes.accept(yield* Given.accepting(plan_id, approve(open))))._tag, "Accepted")
    })
  },
  {
    title: "ends no wait of a plan that is over: nobody has settled it",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      const { plan_id } = held.plan
      const task_id = yield* Given.newTask
      yield* Given.write(held, [Given.waitOpened(task_id, { expires_at: past })])
      yield* Given.settle(held)
      assert.equal((yield* expire).has(plan_id), false)
      assert.equal(yield* codeOf(plan_id, { type: "decision", task_id, decision: "approve" }), "plan_over")
    })
  },
  {
    title: "finds the plan of a call that waits, or has waited, for its owner alone",
    test: Effect.gen(function* () {
      const inboxes = yield* InboxStore
      const held = yield* Given.createHeld()
      const other = yield* Given.createHeld()
      const task_id = yield* Given.newTask
      yield* Given.write(held, [Given.waitOpened(task_id, { kind: "result" })])
      const { caller, plan_id } = held.plan
      assert.deepEqual(yield* inboxes.planOfCall(caller, task_id), Option.some(plan_id))
      assert.deepEqual(yield* inboxes.planOfCall(other.plan.caller, task_id), Option.none())
      assert.deepEqual(yield* inboxes.planOfCall(caller, yield* Given.newTask), Option.none())
      yield* Given.settle(held)
      assert.deepEqual(yield* inboxes.planOfCall(caller, task_id), Option.some(plan_id))
    })
  },
  {
    title: "knows what was decided about a call that has waited for something else since, also when its plan is over",
    test: Effect.gen(function* () {
      const store = yield* InboxStore
      const held = yield* Given.createHeld()
      const { plan_id } = held.plan
      const task_id = yield* Given.newTask
      yield* Given.write(held, [Given.waitOpened(task_id)], [Given.row(2, "approval.requested")])
      const say = (entry: NewEntry) => Effect.flatMap(Given.accepting(plan_id, entry), store.accept)
      const taken = (entry_id: EntryId): PlanChange => ({
        _tag: "EntryChanged",
        entry_id,
        state: "taken",
        step: null,
        moved_to: null
      })
      const input = { question: "Which one? \u0000" }
      const decided: NewEntry = {
        type: "decision",
        task_id,
        decision: "approve",
        note: "Go",
        input,
        remember: "session"
      }
      const accepting = yield* Given.accepting(plan_id, decided)
      yield* store.accept(accepting)
      const same = { _tag: "Known", entry_id: accepting.entry_id, moved_to: null }
      const standing = { decision: "approve", note: "Go", by: accepting.by }
      const stands = Effect.fnUntraced(function* () {
        assert.equal(yield* codeOf(plan_id, { type: "decision", task_id, decision: "reject" }), "task_settled")
        assert.deepEqual(yield* say({ type: "decision", task_id, decision: "approve", input }), same)
        assert.deepEqual(yield* store.decision({ plan_id, task_id }), standing)
        assert.equal(yield* store.isRemembered(held.session_id, "rigger_ask"), true)
      })
      const answers: Array<string> = []
      const other = yield* Given.newTask
      yield* Given.write(held, [Given.waitOpened(other)], [Given.row(3, "approval.requested")])
      yield* Given.write(held, [taken(accepting.entry_id)])
      for (const round of [1, 2]) {
        const wait = Given.waitOpened(task_id, { kind: "answer", round, why: null, spent_ms: round * 1_000.3 })
        yield* Given.write(held, [wait], [Given.row(3 + round, "waiting")])
        yield* stands()
        // It waits for the shorter time.
        const { items } = yield* store.waiting(held.plan.caller, { plan: plan_id }, { limit: 10 })
        assert.deepEqual(
          items.map((item) => item.task_id),
          [other, task_id]
        )
        const accepted = yield* say({ type: "answer", task_id, text: `${round}` })
        assert(accepted._tag === "Accepted")
        answers.push(accepted.entry_id)
        yield* stands()
        yield* Given.write(held, [taken(accepted.entry_id)])
      }
      yield* Given.abandon
      const next = yield* Given.takeOver(held, yield* Given.newReplica)
      const wait = next.abandoned.waits.find((one) => one.task_id === task_id)
      assert.deepEqual(
        [wait?.kind, wait?.settlement?.given?.entry_id, wait?.decision?.entry_id, wait?.decision?.entry],
        ["answer", answers[1], accepting.entry_id, decided]
      )
      assert.equal(Math.round(wait?.spent_ms ?? 0), 2_001)
      const { items } = yield* store.list(plan_id, undefined, { limit: 10 })
      assert.equal(wait?.taken_at, items.at(-1)?.at)
      yield* Given.write(next, [Given.waitOpened(task_id, { kind: "result", why: null })], [Given.row(6, "waiting")])
      // The second answer is the last one that was asked for.
      const again = yield* say({ type: "answer", task_id, text: "2" })
      assert.equal(again._tag === "Known" && again.entry_id, answers[1])
      assert.equal(yield* codeOf(plan_id, { type: "answer", task_id, text: "3" }), "task_settled")
      yield* Given.settle(next)
      yield* stands()
    })
  },
  {
    title: "tells the oldest living replica that it is the one, and the next one when that is dead",
    test: Effect.gen(function* () {
      const leases = yield* LeaseStore
      const { advance } = yield* LeaseTime
      const isOldest = (replica: string) =>
        Effect.map(leases.renew(replica, Given.ttl), ({ isOldest, others }) => [isOldest, others])
      // Those of other tests die.
      yield* Given.abandon
      const [first, second] = [yield* Given.newReplica, yield* Given.newReplica]
      assert.deepEqual(yield* isOldest(first), [true, 0])
      assert.deepEqual(yield* isOldest(second), [false, 1])
      assert.deepEqual(yield* isOldest(first), [true, 1])
      yield* advance(Given.ttl)
      assert.deepEqual(yield* isOldest(second), [true, 0])
      assert.equal((yield* leases.renew(second, Given.ttl)).mayPark, true)
      yield* leases.leave(second)
    })
  }
]
