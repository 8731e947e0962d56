import { ExternalSessionId } from "@bowline/domain/session/Session"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { Effect, Option, Result } from "effect"
import assert from "node:assert/strict"
import * as Given from "../Given.ts"
import type { StoreCase } from "../StoreCase.ts"

const rejecting = { ...Given.preferences, on_busy: "reject" as const }

const newSession = Effect.all({ owner: Given.newOwner, external_session_id: Given.newName })

const eager = { leaseTtl: Given.ttl }

/** Creates a plan that takes its session if it is free, and returns what the store says of the session. */
const createEager = Effect.fnUntraced(function* (given: Parameters<typeof Given.newPlan>[0] = {}) {
  const plan = yield* Given.newPlan({ ...eager, ...given })
  const session = yield* (yield* PlanStore).create(plan, 32)
  return { ...session, plan }
})

export const freeSessionCases: ReadonlyArray<StoreCase> = [
  {
    title: "gives a plan its free session as it is created: it runs, and holds the lease",
    test: Effect.gen(function* () {
      const leases = yield* LeaseStore
      const session = yield* newSession
      for (const expected of [1, 2]) {
        const { fence, plan, session_id } = yield* createEager(session)
        assert.equal(fence, expected)
        const held = { plan, session_id, fence, guard: { _tag: "Held", fence } } as const
        assert.deepEqual(yield* (yield* PlanStore).guardOf(plan.plan_id, plan.replica), Option.some(held.guard))
        const { stage, state } = yield* Given.get(held)
        assert.deepEqual([state, stage], ["running", null])
        assert.deepEqual((yield* leases.renew(plan.replica, Given.ttl)).held, new Map([[session_id, fence]]))
        assert.deepEqual(yield* leases.acquire(session_id, yield* Given.newReplica, Given.ttl), Option.none())
        yield* Given.finish(held)
        assert.deepEqual(yield* (yield* PlanStore).guardOf(plan.plan_id, plan.replica), Option.none())
      }
    })
  },
  {
    title: "queues a plan whose session has a plan that waits, or that runs",
    test: Effect.gen(function* () {
      const session = yield* newSession
      const first = yield* Given.create(session)
      const second = yield* createEager(session)
      assert.equal(second.fence, undefined)
      yield* Given.hold(first)
      const third = yield* createEager(session)
      assert.equal(third.fence, undefined)
      const guard = yield* (yield* PlanStore).guardOf(third.plan.plan_id, third.plan.replica)
      assert.deepEqual(guard, Option.some({ _tag: "Queued", replica: third.plan.replica, fence: 0 }))
      assert.deepEqual(yield* (yield* PlanStore).guardOf(third.plan.plan_id, yield* Given.newReplica), Option.none())
    })
  },
  {
    title: "queues a plan whose session somebody holds without a plan, until that lease has expired",
    test: Effect.gen(function* () {
      const session = yield* newSession
      const first = yield* Given.createHeld(session)
      yield* Given.settle(first)
      const { replica } = first.plan
      const waiting = yield* createEager({ ...session, replica })
      assert.equal(waiting.fence, undefined)
      const other = yield* newSession
      yield* Given.settle(yield* Given.createHeld(other))
      yield* Given.abandon
      const { fence } = yield* createEager(other)
      assert.equal(fence, 2)
    })
  },
  {
    title: "gives a session to one of many that come at once, with a plan or without one",
    test: Effect.gen(function* () {
      const leases = yield* LeaseStore
      for (let round = 0; round < 5; round++) {
        const session = yield* newSession
        const replica = yield* Given.newReplica
        const { session_id, ...first } = yield* Given.createHeld({ ...session, replica })
        yield* Given.finish({ session_id, ...first })
        const acquiring = Array.from({ length: 2 }, () => leases.acquire(session_id, replica, Given.ttl))
        const creating = Array.from({ length: 6 }, () => createEager({ ...session, replica }))
        const [, created] = yield* Effect.all(
          [Effect.all(acquiring, { concurrency: 2 }), Effect.all(creating, { concurrency: 6 })],
          { concurrency: 2 }
        )
        const [granted, ...others] = created.flatMap(({ fence }) => fence ?? [])
        assert.deepEqual(others, [])
        // No other lease has replaced that of the plan.
        const held = (yield* leases.renew(replica, Given.ttl)).held.get(session_id)
        assert.equal(held, granted ?? held)
      }
    })
  },
  {
    title: "gives a new session to one of many first requests, and to none of those that would not wait for it",
    test: Effect.gen(function* () {
      const session = yield* newSession
      const preferences = rejecting
      const results = yield* Effect.all(
        Array.from({ length: 8 }, () => Effect.result(createEager({ ...session, preferences }))),
        { concurrency: "unbounded" }
      )
      assert.deepEqual(
        results.flatMap((result) => (Result.isSuccess(result) ? [result.success.fence] : [])),
        [1]
      )
    })
  },
  {
    title: "frees the session with the end of its plan, unless somebody else has it by then",
    test: Effect.gen(function* () {
      const [leases, store] = [yield* LeaseStore, yield* PlanStore]
      const [ended, lost] = [yield* Given.createHeld(), yield* Given.createHeld()]
      const end = [Given.settled(), { _tag: "Released" }] as const
      yield* Given.abandon
      yield* leases.renew(ended.plan.replica, Given.ttl)
      const taken = yield* Given.takeOver(lost, yield* Given.newReplica)
      const refused = yield* store.commit([Given.commitOf(ended, end), Given.commitOf(lost, end)])
      assert.deepEqual(refused, Given.refused(lost.plan.plan_id))
      assert.deepEqual((yield* leases.renew(ended.plan.replica, Given.ttl)).held, new Map())
      assert.equal(yield* Given.acquire(ended.session_id, yield* Given.newReplica), ended.fence + 1)
      yield* Given.settle(taken)
      assert.deepEqual(yield* leases.acquire(lost.session_id, lost.plan.replica, Given.ttl), Option.none())
      // The answer of the first try was lost.
      assert.deepEqual(yield* store.commit([Given.commitOf(ended, end)]), new Map())
    })
  },
  {
    title: "tells readers the name that the session has, whichever name it was asked for by",
    test: Effect.gen(function* () {
      const owner = yield* Given.newOwner
      const name = ExternalSessionId.make(`a "name" \\ of /'s ${yield* Given.newName}`)
      const first = yield* createEager({ owner, external_session_id: name })
      const byId = { owner, external_session_id: ExternalSessionId.make(first.session_id) }
      for (const { plan, session_id } of [first, yield* createEager(byId), yield* createEager()]) {
        const created = session_id === plan.new_session_id
        const external_session_id = plan.caller === owner ? name : null
        assert.deepEqual(yield* (yield* PlanStore).events(plan.plan_id, 0, 10), [
          Given.row(1, "session", JSON.stringify({ external_session_id, created }))
        ])
      }
    })
  }
]
