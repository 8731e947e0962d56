import type { PlanChange } from "@bowline/runtime/unstable/store/PlanStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { Effect, Option } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const handedOver: PlanChange = { _tag: "HandedOver" }

/** The plan is left behind, and taken over by a replica that had nothing to do with it. */
const dieAndTakeOver = Effect.fnUntraced(function* (stored: Given.Stored) {
  yield* Given.abandon
  const replica = yield* Given.newReplica
  const taken = yield* Given.takeOver(stored, replica)
  return { ...taken, plan: { ...taken.plan, replica }, deaths: taken.abandoned.deaths }
})

export const handOverCases: ReadonlyArray<StoreCase> = [
  {
    title: "counts the processes that died with a plan that they ran, and none that it only waited in",
    test: Effect.gen(function* () {
      const queued = yield* dieAndTakeOver(yield* Given.create())
      const again = yield* dieAndTakeOver(queued)
      assert.deepEqual([queued.deaths, again.deaths], [0, 0])
      const first = yield* dieAndTakeOver(yield* Given.hold(again))
      const second = yield* dieAndTakeOver(first)
      assert.deepEqual([first.deaths, second.deaths], [1, 2])
    })
  },
  {
    title: "takes a plan over that was handed over as the next one that runs it finds it, and counts no death, once",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      yield* Given.write(held, [{ _tag: "Progressed", stage: "provider", progress: Given.progress }])
      const before = yield* Given.get(held)
      yield* Given.write(held, [handedOver])
      assert.deepEqual(yield* Given.get(held), before)
      assert.deepEqual([before.state, before.stage], ["running", "provider"])
      const next = yield* dieAndTakeOver(held)
      const last = yield* dieAndTakeOver(next)
      assert.deepEqual([next.deaths, last.deaths], [0, 1])
      assert.deepEqual(last.abandoned.request, held.plan.storedRequest)
    })
  },
  {
    title: "forgets with the next take-over that a plan was handed over, also while it waits",
    test: Effect.gen(function* () {
      const stored = yield* Given.create()
      yield* Given.write(stored, [handedOver])
      const held = yield* Given.hold(yield* dieAndTakeOver(stored))
      assert.equal((yield* dieAndTakeOver(held)).deaths, 1)
    })
  },
  {
    title:
      "gives a queued plan that a living replica has handed over to the next that asks, once, and not back to that replica",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const [replica, next] = [yield* Given.newReplica, yield* Given.newReplica]
      const stored = yield* Given.create({ replica })
      yield* (yield* LeaseStore).renew(replica, Given.ttl)
      const isTakenBy = (by: typeof replica) =>
        Effect.map(store.takeOver(by, Given.ttl, 10_000), (taken) =>
          taken.some(({ plan }) => plan.plan_id === stored.plan.plan_id)
        )
      assert.equal(yield* isTakenBy(next), false)
      yield* Given.write(stored, [handedOver])
      assert.deepEqual(
        [yield* isTakenBy(replica), yield* isTakenBy(next), yield* isTakenBy(replica)],
        [false, true, false]
      )
    })
  },
  {
    title: "lets nobody hand a plan over that is not theirs any more",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      const first = yield* dieAndTakeOver(held)
      const refused = yield* (yield* PlanStore).commit([Given.commitOf(held, [handedOver])])
      assert.deepEqual(refused, Given.refused(held.plan.plan_id))
      assert.equal((yield* dieAndTakeOver(first)).deaths, 2)
    })
  },
  {
    title: "leaves the plans of a replica that ends to the others at once, those that run and those that wait",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const leases = yield* LeaseStore
      const [replica, other, next] = [yield* Given.newReplica, yield* Given.newReplica, yield* Given.newReplica]
      const [running, queued] = [yield* Given.createHeld({ replica }), yield* Given.create({ replica })]
      const others = [yield* Given.createHeld({ replica: other }), yield* Given.create({ replica: other })]
      yield* leases.renew(replica, Given.ttl)
      yield* leases.renew(other, Given.ttl)
      const takenOf = Effect.fnUntraced(function* (plans: ReadonlyArray<Given.Stored>) {
        const ids = plans.map(({ plan }) => plan.plan_id)
        const taken = yield* store.takeOver(next, Given.ttl, 10_000)
        return taken.flatMap(({ plan }) => (ids.includes(plan.plan_id) ? [plan.plan_id] : []))
      })
      const all = [running, queued, ...others]
      assert.deepEqual(yield* takenOf(all), [])
      yield* leases.leave(replica)
      assert.deepEqual(yield* takenOf(all), [running.plan.plan_id, queued.plan.plan_id])
      assert.deepEqual(
        yield* store.commit([Given.commitOf(running, [handedOver]), Given.commitOf(queued, [handedOver])]),
        Given.refused(running.plan.plan_id, queued.plan.plan_id)
      )
    })
  },
  {
    title: "gives the session of a replica that has ended to whoever asks, but not while a plan was left running in it",
    test: Effect.gen(function* () {
      const leases = yield* LeaseStore
      const [replica, other] = [yield* Given.newReplica, yield* Given.newReplica]
      const [held, idle] = [yield* Given.createHeld({ replica }), yield* Given.create()]
      yield* Given.acquire(idle.session_id, replica)
      yield* Given.write(held, [handedOver])
      yield* leases.leave(replica)
      assert.equal((yield* Given.get(held)).state, "running")
      assert.deepEqual(yield* leases.acquire(held.session_id, other, Given.ttl), Option.none())
      assert(Option.isSome(yield* leases.acquire(idle.session_id, other, Given.ttl)))
      assert.equal((yield* Given.takeOver(held, other)).abandoned.deaths, 0)
    })
  }
]
