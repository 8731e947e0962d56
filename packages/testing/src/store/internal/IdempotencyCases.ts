import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect, Option } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const expires_at = "2026-01-03T03:04:05.678Z"
const before = "2026-01-03T03:04:05.677Z"

const newKey = Effect.map(Given.newTask, (key) => ({ key, body: "a digest", expires_at }))

const sweepAll = Effect.gen(function* () {
  while (yield* (yield* SessionStore).sweep(expires_at));
})

export const idempotencyCases: ReadonlyArray<StoreCase> = [
  {
    title: "keeps an idempotency key with its plan, for its owner and its body, until it expires",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const [owner, idempotency] = [yield* Given.newOwner, yield* newKey]
      const find = (now: string, body = idempotency.body) => store.findByKey(owner, { ...idempotency, body }, now)
      assert.deepEqual(yield* find(before), Option.none())
      const { plan } = yield* Given.create({ owner, idempotency })
      assert.deepEqual(yield* find(before), Option.some(plan.plan_id))
      assert.deepEqual(yield* find(expires_at), Option.none())
      assert.equal((yield* Given.failureOf(find(before, "another")))?._tag, "IdempotencyConflict")
      assert.deepEqual(yield* store.findByKey(yield* Given.newOwner, idempotency, before), Option.none())

      const stranger = yield* Given.create({ idempotency })
      assert.deepEqual(
        yield* store.findByKey(stranger.plan.caller, idempotency, before),
        Option.some(stranger.plan.plan_id)
      )
    })
  },
  {
    title: "creates no second plan for an idempotency key, and writes nothing of it",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
      const idempotency = yield* newKey
      const first = yield* Given.create({ ...session, idempotency })
      const later = { ...session, created_at: before }
      const again = yield* Given.failureOf(Given.create({ ...later, idempotency, agents: [Given.agent("a")] }))
      assert.deepEqual(again?._tag === "PlanExists" ? again.plan_id : again, first.plan.plan_id)
      const elsewhere = { ...idempotency, body: "another" }
      const another = yield* Given.failureOf(
        Given.create({ ...later, external_session_id: yield* Given.newName, idempotency: elsewhere })
      )
      assert.equal(another?._tag, "IdempotencyConflict")
      assert.equal((yield* store.list(session.owner, {}, { limit: 10 })).items.length, 1)
      const { items } = yield* (yield* SessionStore).list(session.owner, { limit: 10 })
      assert.deepEqual(
        items.map(({ last_active_at, agents }) => ({ last_active_at, agents })),
        [{ last_active_at: Given.at, agents: [] }]
      )
    })
  },
  {
    title: "says that the plan is there already before it says anything else of a repeated request",
    test: Effect.gen(function* () {
      const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
      const repeated = {
        ...session,
        preferences: { ...Given.preferences, on_busy: "reject" as const },
        messages: [(yield* Given.appended("before")).message],
        idempotency: yield* newKey
      }
      yield* Given.create(repeated)
      assert.equal((yield* Given.failureOf(Given.create(repeated)))?._tag, "PlanExists")
    })
  },
  {
    title: "creates one plan for an idempotency key that comes many times at once, in one session or in new ones",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      for (const external_session_id of [yield* Given.newName, null]) {
        const [owner, idempotency] = [yield* Given.newOwner, yield* newKey]
        const results = yield* Effect.forEach(
          Array.from({ length: 8 }),
          () => Effect.result(Given.create({ owner, external_session_id, idempotency })),
          { concurrency: "unbounded" }
        )
        const ids = results.map((result) => {
          if (result._tag === "Success") return result.success.plan.plan_id
          return result.failure._tag === "PlanExists" ? result.failure.plan_id : result.failure
        })
        assert.equal(new Set(ids).size, 1)
        assert.equal(results.filter(({ _tag }) => _tag === "Success").length, 1)
        assert.equal((yield* store.list(owner, {}, { limit: 10 })).items.length, 1)
        assert.equal((yield* (yield* SessionStore).list(owner, { limit: 10 })).items.length, 1)
      }
    })
  },
  {
    title: "leaves no trace behind the idempotency key of a plan that is refused",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
      const first = yield* Given.createHeld(session)
      const idempotency = yield* newKey
      const preferences = { ...Given.preferences, on_busy: "reject" as const }
      const busy = yield* Given.failureOf(Given.create({ ...session, preferences, idempotency }))
      const messages = [(yield* Given.appended("before")).message]
      const invalid = yield* Given.failureOf(Given.create({ ...session, messages, idempotency }))
      assert.deepEqual([busy?._tag, invalid?._tag], ["SessionBusy", "InvalidRequest"])
      assert.deepEqual(yield* store.findByKey(session.owner, idempotency, Given.at), Option.none())
      yield* Given.finish(first)
      yield* Given.create({ ...session, preferences, idempotency: { ...idempotency, body: "another" } })
    })
  },
  {
    title: "gives an idempotency key to another plan once it has expired, or its session is deleted",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const sessions = yield* SessionStore
      const [owner, idempotency] = [yield* Given.newOwner, yield* newKey]
      const first = yield* Given.createHeld({ owner, idempotency })
      yield* Given.finish(first)
      const next = { key: idempotency.key, body: "another", expires_at: "2026-01-04T03:04:05.678Z" }
      const second = yield* Given.createHeld({ owner, created_at: expires_at, idempotency: next })
      yield* Given.finish(second)
      assert.equal(yield* sessions.delete(first.session_id), true)
      assert.deepEqual(yield* store.findByKey(owner, next, expires_at), Option.some(second.plan.plan_id))
      assert.equal(yield* sessions.delete(second.session_id), true)
      assert.deepEqual(yield* store.findByKey(owner, next, expires_at), Option.none())
      yield* Given.create({ owner, created_at: expires_at, idempotency: { ...next, body: "a third" } })
    })
  },
  {
    title: "sweeps idempotency keys once they have expired, and none before",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const owner = yield* Given.newOwner
      const idempotency = yield* newKey
      const kept = { ...(yield* newKey), expires_at: "2026-01-03T03:04:05.679Z" }
      for (const each of [idempotency, kept]) yield* Given.finish(yield* Given.createHeld({ owner, idempotency: each }))
      yield* sweepAll
      // By an earlier clock: what is only expired would still be found.
      assert.deepEqual(yield* store.findByKey(owner, idempotency, before), Option.none())
      assert.equal(Option.isSome(yield* store.findByKey(owner, kept, before)), true)
    })
  }
]
