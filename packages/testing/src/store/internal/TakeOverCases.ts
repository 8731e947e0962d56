import type { PlanChange } from "@bowline/runtime/plan/PlanStore"
import { PlanStore } from "@bowline/runtime/plan/PlanStore"
import { LeaseStore } from "@bowline/runtime/session/LeaseStore"
import { Effect, Option } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

/** What each of two replicas gets of these plans when both take over at once. */
const takenByTwo = Effect.fnUntraced(function* (plans: ReadonlyArray<Given.Stored>) {
  const store = yield* PlanStore
  const replicas = [yield* Given.newReplica, yield* Given.newReplica]
  const ids = new Set(plans.map(({ plan }) => plan.plan_id))
  const taken = yield* Effect.forEach(replicas, (replica) => store.takeOver(replica, Given.ttl), {
    concurrency: "unbounded"
  })
  // A plan that one of them was busy with is left to the other, or to the next round.
  taken.push(...(yield* Effect.forEach(replicas, (replica) => store.takeOver(replica, Given.ttl))))
  return taken.flat().filter(({ plan }) => ids.has(plan.plan_id))
})

const isTaken = Effect.fnUntraced(function* ({ plan }: Given.Stored) {
  const taken = yield* (yield* PlanStore).takeOver(yield* Given.newReplica, Given.ttl)
  return taken.some((left) => left.plan.plan_id === plan.plan_id)
})

export const takeOverCases: ReadonlyArray<StoreCase> = [
  {
    title: "gives each plan that was left behind to one replica",
    test: Effect.gen(function* () {
      const plans = yield* Effect.forEach(Array.from({ length: 6 }), (_, index) =>
        index % 2 === 0 ? Given.create() : Given.createHeld()
      )
      yield* Given.abandon
      const taken = yield* takenByTwo(plans)
      assert.deepEqual(taken.map(({ plan }) => plan.plan_id).sort(), plans.map(({ plan }) => plan.plan_id).sort())
    })
  },
  {
    title: "takes a queued plan over with what was said of it, and a guard that the old replica does not have",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const stored = yield* Given.create()
      const { plan_id } = stored.plan
      yield* Given.write(stored, [], [Given.row(2, "queued")])
      yield* store.requestAbort(plan_id, "cancelled")
      yield* Given.abandon
      const replica = yield* Given.newReplica
      const taken = yield* Given.takeOver(stored, replica)
      assert.deepEqual(taken.left, {
        plan: yield* Given.get(stored),
        guard: { _tag: "Queued", replica, fence: 1 },
        head: 2,
        open_tasks: []
      })
      assert.equal(taken.left.plan.state, "queued")
      assert.deepEqual(yield* store.abortRequests(replica), [{ plan_id, reason: "cancelled" }])
      assert.deepEqual(yield* store.abortRequests(stored.plan.replica), [])
      yield* Given.write(taken, [], [Given.row(3, "queued")])
      yield* Given.hold({ ...taken, plan: { ...taken.plan, replica } })
    })
  },
  {
    title: "takes a running plan over with the lease of its session, and the tasks that are open",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const leases = yield* LeaseStore
      const held = yield* Given.createHeld()
      const [open, sent, done] = [yield* Given.newTask, yield* Given.newTask, yield* Given.newTask]
      yield* Given.write(
        held,
        [Given.started(open, "bob_ask \u0000"), Given.started(sent, "eve_ask"), Given.started(done, "eve_ask")],
        [Given.row(2, "task.started"), Given.row(3, "text.delta", "{}", 4)]
      )
      const finished: PlanChange = {
        _tag: "TaskFinished",
        task_id: done,
        state: "completed",
        result: "yes \u0000",
        error: null,
        at: Given.later
      }
      const accepted: PlanChange = {
        _tag: "TaskAccepted",
        task_id: sent,
        remote_task_id: "remote",
        remote_context_id: null
      }
      yield* Given.write(held, [accepted, finished], [Given.row(7, "task.finished")])
      yield* Given.abandon
      const replica = yield* Given.newReplica
      const taken = yield* Given.takeOver(held, replica)

      const { open_tasks, ...left } = taken.left
      assert.deepEqual(left, {
        plan: yield* Given.get(held),
        guard: { _tag: "Held", fence: held.fence + 1 },
        head: 7
      })
      assert.deepEqual(
        new Map(open_tasks.map(({ task_id, remote_task_id, started_at }) => [task_id, { remote_task_id, started_at }])),
        new Map([
          [open, { remote_task_id: null, started_at: Given.at }],
          [sent, { remote_task_id: "remote", started_at: Given.at }]
        ])
      )
      assert.deepEqual(yield* leases.acquire(held.session_id, yield* Given.newReplica, Given.ttl), Option.none())
      assert.equal((yield* leases.renew(replica, Given.ttl)).get(held.session_id), taken.fence)
      assert.deepEqual(
        yield* store.commit([Given.commitOf(held, [], [Given.row(8, "error")])], true),
        new Set([held.plan.plan_id])
      )
      yield* Given.write(taken, [], [Given.row(8, "error")])
      yield* Given.settle(taken)
    })
  },
  {
    title: "leaves a plan to a replica that lives, even if it has only just come",
    test: Effect.gen(function* () {
      const leases = yield* LeaseStore
      const first = yield* Given.create()
      assert.equal(yield* isTaken(first), false)
      yield* Given.abandon
      yield* leases.renew(first.plan.replica, Given.ttl)
      assert.equal(yield* isTaken(first), false)
    })
  },
  {
    title: "takes over a running plan as soon as nobody holds its session, though its replica lives, or asks itself",
    test: Effect.gen(function* () {
      const leases = yield* LeaseStore
      const held = yield* Given.createHeld()
      const { replica } = held.plan
      yield* leases.renew(replica, Given.ttl)
      assert.equal(yield* isTaken(held), false)
      yield* leases.release(held.session_id, held.fence)
      yield* Given.takeOver(held, yield* Given.newReplica)
      yield* Given.abandon
      yield* Given.takeOver(held, replica)
    })
  },
  {
    title: "leaves a plan that is over as it is",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      yield* Given.settle(held)
      yield* Given.abandon
      assert.equal(yield* isTaken(held), false)
    })
  }
]
