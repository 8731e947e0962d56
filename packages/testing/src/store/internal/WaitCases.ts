import type { NewEntry } from "@bowline/domain/plan/Inbox"
import { EntryRefused } from "@bowline/domain/plan/Refusal"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
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
    title: "tells the oldest living replica that it is the one, and the next one when that is dead",
    test: Effect.gen(function* () {
      const leases = yield* LeaseStore
      const { advance } = yield* LeaseTime
      const isOldest = (replica: string) =>
        Effect.map(leases.renew(replica, Given.ttl), ({ isAlone, isOldest }) => [isOldest, isAlone])
      // Those of other tests die.
      yield* Given.abandon
      const [first, second] = [yield* Given.newReplica, yield* Given.newReplica]
      assert.deepEqual(yield* isOldest(first), [true, true])
      assert.deepEqual(yield* isOldest(second), [false, false])
      assert.deepEqual(yield* isOldest(first), [true, false])
      yield* advance(Given.ttl)
      assert.deepEqual(yield* isOldest(second), [true, true])
      assert.equal((yield* leases.renew(second, Given.ttl)).mayPark, true)
      yield* leases.leave(second)
    })
  }
]
