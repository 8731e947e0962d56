import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

/** When a session expires whose last plan was created, or was over. */
const expiry = { created: "2026-02-01T03:04:05.678Z", settled: "2026-02-01T03:05:06.789Z" }

const sweepAll = Effect.fnUntraced(function* (now: string) {
  while (yield* (yield* SessionStore).sweep(now));
})

const isThere = Effect.fnUntraced(function* ({ plan, session_id }: Given.Stored) {
  return (yield* Given.failureOf((yield* SessionStore).find(plan.caller, session_id))) === undefined
})

export const deleteCases: ReadonlyArray<StoreCase> = [
  {
    title: "deletes a session with its plans, messages and events, and makes a new one under its name",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
      const held = yield* Given.createHeld({ ...session, agents: [Given.agent("a")], prior_summary: "before" })
      yield* Given.write(held, [yield* Given.appended("one"), Given.started(yield* Given.newTask, "tool")])
      const other = yield* Given.create({ owner: session.owner })
      assert.equal(yield* sessions.delete(held.session_id), false)
      yield* Given.finish(held)
      assert.equal(yield* sessions.delete(held.session_id), true)
      assert.equal(yield* sessions.delete(held.session_id), true)
      for (const id of [held.session_id, session.external_session_id]) {
        assert.equal((yield* Given.failureOf(sessions.find(session.owner, id)))?._tag, "NotFound")
      }
      assert.equal((yield* Given.failureOf(Given.get(held)))?._tag, "NotFound")
      assert.deepEqual(yield* Given.eventsOf(held), [])
      assert.deepEqual((yield* sessions.messages(held.session_id, { limit: 10 })).items, [])
      assert.deepEqual(
        (yield* sessions.list(session.owner, { limit: 10 })).items.map(({ session_id }) => session_id),
        [other.session_id]
      )
      assert.equal((yield* Given.eventsOf(other)).length, 1)
      const leases = yield* LeaseStore
      const asked = leases.acquire(held.session_id, yield* Given.newReplica, Given.ttl)
      assert.equal((yield* Given.failureOf(asked))?._tag, "NotFound")

      const again = yield* Given.create(session)
      assert.notEqual(again.session_id, held.session_id)
      const fresh = yield* sessions.find(session.owner, session.external_session_id)
      assert.deepEqual([fresh.message_count, fresh.summary, fresh.agents], [0, null, []])
    })
  },
  {
    title: "lets a plan that comes while its session is deleted see it, or get a new one",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      for (let round = 0; round < 5; round++) {
        const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
        const held = yield* Given.createHeld(session)
        yield* Given.finish(held)
        const [isDeleted, next] = yield* Effect.all([sessions.delete(held.session_id), Given.create(session)], {
          concurrency: "unbounded"
        })
        assert.equal(next.session_id === held.session_id, !isDeleted)
        yield* Given.hold(next)
      }
    })
  },
  {
    title: "sweeps sessions once they have expired, and none before",
    test: Effect.gen(function* () {
      const owner = yield* Given.newOwner
      const held = yield* Given.createHeld({ owner })
      yield* Given.finish(held)
      const [early, queued] = [yield* Given.createHeld({ owner }), yield* Given.create({ owner })]
      yield* Given.settle(early, {
        state: "aborted",
        error: { code: "aborted", message: "Cancelled", retryable: false, stage: null, reason: "cancelled" }
      })
      const running = yield* Given.createHeld({ owner })
      yield* sweepAll(expiry.created)
      assert.equal(yield* isThere(held), true)
      yield* sweepAll(expiry.settled)
      assert.deepEqual(yield* Effect.forEach([held, early, queued, running], isThere), [false, false, true, true])
      assert.deepEqual(yield* Given.eventsOf(held), [])
      assert.equal((yield* (yield* PlanStore).list(owner, {}, { limit: 10 })).items.length, 2)
      yield* Given.settle(queued)
      yield* Given.finish(running)
    })
  },
  {
    title: "keeps a session that a plan has come to before it was swept",
    test: Effect.gen(function* () {
      const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
      const held = yield* Given.createHeld(session)
      yield* Given.finish(held)
      const next = yield* Given.createHeld({ ...session, created_at: expiry.created })
      yield* Given.settle(next)
      const later = yield* Given.create({ ...session, created_at: expiry.settled })
      assert.equal(later.session_id, held.session_id)
      yield* sweepAll(expiry.settled)
      assert.equal(yield* isThere(held), true)
    })
  },
  {
    title: "keeps a session no longer than the plan wanted that created it, whatever later plans want",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      const owner = yield* Given.newOwner
      const expiresAt = Effect.fnUntraced(function* ({ session_id }: Given.Stored) {
        return (yield* sessions.find(owner, session_id)).expires_at
      })
      const ended = Effect.fnUntraced(function* (given: Given.GivenPlan) {
        const held = yield* Given.createHeld({ owner, ...given })
        const created = yield* expiresAt(held)
        yield* Given.finish(held)
        return { ...held, times: [created, yield* expiresAt(held)] }
      })
      const day = { session_ttl_ms: 86_400_000 }
      const name = { external_session_id: yield* Given.newName }
      const [short, long, none] = [
        yield* ended({ ...day, ...name }),
        yield* ended({ session_ttl_ms: 10 ** 15 }),
        yield* ended({ session_ttl_ms: 0 })
      ]
      assert.deepEqual(short.times, ["2026-01-03T03:04:05.678Z", "2026-01-03T03:05:06.789Z"])
      assert.deepEqual(long.times, [expiry.created, expiry.settled])
      assert.deepEqual(none.times, [Given.at, Given.later])

      // Plans of every kind come to the session: one in one statement, one in steps.
      for (const given of [{ session_ttl_ms: 0 }, { prior_summary: "before" }]) {
        const later = yield* ended({ ...name, ...given, created_at: "2026-01-02T03:05:00.000Z" })
        assert.deepEqual(later.times, ["2026-01-03T03:05:00.000Z", "2026-01-03T03:05:06.789Z"])
        assert.equal(later.session_id, short.session_id)
      }
      yield* sweepAll(Given.later)
      assert.deepEqual(yield* Effect.forEach([short, long, none], isThere), [true, true, false])
      yield* sweepAll("2026-01-03T03:05:06.789Z")
      assert.deepEqual(yield* Effect.forEach([short, long], isThere), [false, true])
    })
  }
]
