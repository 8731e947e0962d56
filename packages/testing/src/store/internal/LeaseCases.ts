import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { Duration, Effect, Option } from "effect"
import assert from "node:assert/strict"
import { LeaseTime, type StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const half = Duration.divideUnsafe(Given.ttl, 2)

export const leaseCases: ReadonlyArray<StoreCase> = [
  {
    title: "gives a session to one of many replicas that ask at once",
    test: Effect.gen(function* () {
      const leases = yield* LeaseStore
      const { session_id } = yield* Given.create()
      const replicas = yield* Effect.forEach(Array.from({ length: 8 }), () => Given.newReplica)
      const fences = yield* Effect.forEach(replicas, (replica) => leases.acquire(session_id, replica, Given.ttl), {
        concurrency: "unbounded"
      })
      assert.equal(fences.filter(Option.isSome).length, 1)
    })
  },
  {
    title:
      "gives a growing fence with every lease, also behind one that was given back, or that the replica has forgotten",
    test: Effect.gen(function* () {
      const leases = yield* LeaseStore
      const { session_id } = yield* Given.create()
      const [a, b] = [yield* Given.newReplica, yield* Given.newReplica]
      const lost = yield* Given.acquire(session_id, a)
      assert.deepEqual(yield* leases.acquire(session_id, b, Given.ttl), Option.none())
      const first = yield* Given.acquire(session_id, a)
      assert(lost < first)
      yield* leases.release(session_id, first)
      const second = yield* Given.acquire(session_id, b)
      yield* Given.abandon
      const third = yield* Given.acquire(session_id, a)
      assert(first < second && second < third)
    })
  },
  {
    title: "gives a lease back by its own fence only",
    test: Effect.gen(function* () {
      const leases = yield* LeaseStore
      const { session_id } = yield* Given.create()
      const [a, b] = [yield* Given.newReplica, yield* Given.newReplica]
      const old = yield* Given.acquire(session_id, a)
      yield* Given.abandon
      const fence = yield* Given.acquire(session_id, b)
      yield* leases.release(session_id, old)
      assert.deepEqual(yield* leases.acquire(session_id, a, Given.ttl), Option.none())
      assert.deepEqual((yield* leases.renew(b, Given.ttl)).held, new Map([[session_id, fence]]))
    })
  },
  {
    title: "prolongs the leases of a replica, an expired one too, and tells which somebody else has taken",
    test: Effect.gen(function* () {
      const leases = yield* LeaseStore
      const [a, b] = [yield* Given.newReplica, yield* Given.newReplica]
      const [kept, taken] = [yield* Given.create(), yield* Given.create()]
      const fence = yield* Given.acquire(kept.session_id, a)
      yield* Given.acquire(taken.session_id, a)
      yield* Given.abandon
      const next = yield* Given.acquire(taken.session_id, b)
      assert.deepEqual((yield* leases.renew(a, Given.ttl)).held, new Map([[kept.session_id, fence]]))
      assert.deepEqual(yield* leases.acquire(kept.session_id, b, Given.ttl), Option.none())
      yield* (yield* LeaseTime).advance(half)
      assert.deepEqual((yield* leases.renew(b, Given.ttl)).held, new Map([[taken.session_id, next]]))
      yield* (yield* LeaseTime).advance(half)
      assert.deepEqual(yield* leases.acquire(taken.session_id, a, Given.ttl), Option.none())
      assert(Option.isSome(yield* leases.acquire(kept.session_id, b, Given.ttl)))
    })
  },
  {
    title: "gives no lease on a session while a plan that was left running waits for somebody to take it over",
    test: Effect.gen(function* () {
      const leases = yield* LeaseStore
      const replica = yield* Given.newReplica
      const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName, replica }
      const left = yield* Given.createHeld(session)
      const { session_id } = yield* Given.create(session)
      yield* Given.abandon
      assert.deepEqual(yield* leases.acquire(session_id, replica, Given.ttl), Option.none())
      const taken = yield* Given.takeOver(left, yield* Given.newReplica)
      yield* Given.finish(taken)
      assert(Option.isSome(yield* leases.acquire(session_id, replica, Given.ttl)))
    })
  },
  {
    title: "tells a session that somebody has from one that there is not",
    test: Effect.gen(function* () {
      const { new_session_id } = yield* Given.newPlan()
      const asked = (yield* LeaseStore).acquire(new_session_id, "replica_a", Given.ttl)
      assert.equal((yield* Given.failureOf(asked))?._tag, "NotFound")
    })
  }
]
