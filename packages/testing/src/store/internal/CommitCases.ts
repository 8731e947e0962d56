import type { Outcome } from "@bowline/domain/plan/Outcome"
import { ExternalSessionId } from "@bowline/domain/session/Session"
import type { PlanChange } from "@bowline/runtime/unstable/store/PlanStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect, Exit } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const advanced: PlanChange = { _tag: "Progressed", stage: "provider", progress: Given.progress }

const aborted: Outcome = {
  state: "aborted",
  error: { code: "aborted", message: "Cancelled", retryable: false, stage: "queue", reason: "cancelled" }
}

/** What there is to see of a plan. */
const snapshot = (stored: Given.Stored) => Effect.all([Given.get(stored), Given.eventsOf(stored)])

export const commitCases: ReadonlyArray<StoreCase> = [
  {
    title: "writes how far a plan has come, and how it ended",
    test: Effect.gen(function* () {
      const stored = yield* Given.create()
      const before = yield* Given.get(stored)
      const held = yield* Given.hold(stored)
      assert.deepEqual(yield* Given.get(held), { ...before, state: "running", stage: null })
      yield* Given.write(held, [advanced])
      const running = { ...before, ...Given.progress, state: "running", stage: "provider" }
      assert.deepEqual(yield* Given.get(held), running)
      yield* Given.settle(held)
      assert.deepEqual(yield* Given.get(held), {
        ...running,
        state: "completed",
        stage: null,
        finished_at: Given.later,
        final: Given.completed.state === "completed" ? Given.completed.final : null
      })
      const session = yield* (yield* SessionStore).find(held.plan.caller, held.session_id)
      assert.equal(session.last_active_at, Given.later)
      assert.equal(session.expires_at, "2026-02-01T03:05:06.789Z")
    })
  },
  {
    title: "settles a plan that never had its session",
    test: Effect.gen(function* () {
      const stored = yield* Given.create()
      yield* Given.settle(stored, aborted)
      const { state, error, final } = yield* Given.get(stored)
      assert.deepEqual({ state, error, final }, { ...aborted, final: null })
    })
  },
  {
    title: "writes nothing of a plan whose fence is old, and all of the other plans of the batch",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const stale = yield* Given.createHeld()
      yield* Given.abandon
      yield* store.takeOver(yield* Given.newReplica, Given.ttl, 10_000)
      const good = yield* Given.createHeld()
      const before = yield* snapshot(stale)
      const changes = [advanced, yield* Given.appended("hello")]
      const refused = yield* store.commit(
        [stale, good].map((stored) => Given.commitOf(stored, changes, [Given.row(2, "step")]))
      )
      assert.deepEqual(refused, Given.refused(stale.plan.plan_id))
      assert.deepEqual(yield* snapshot(stale), before)
      const sessions = yield* SessionStore
      assert.deepEqual(yield* sessions.history(stale.session_id), [])
      assert.equal((yield* Given.get(good)).stage, "provider")
      assert.equal((yield* Given.eventsOf(good)).length, 2)
      assert.equal((yield* sessions.history(good.session_id)).length, 1)
    })
  },
  {
    title: "writes nothing of a queued plan that another replica has taken over",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const stale = yield* Given.create()
      yield* Given.abandon
      yield* store.takeOver(yield* Given.newReplica, Given.ttl, 10_000)
      const before = yield* snapshot(stale)
      const write = (stored: Given.Stored) =>
        store.commit([Given.commitOf(stored, [advanced], [Given.row(2, "queued")])])
      assert.deepEqual(yield* write(stale), Given.refused(stale.plan.plan_id))
      // The session may be its old replica's, and yet the plan is not.
      const fence = yield* Given.acquire(stale.session_id, stale.plan.replica)
      assert.deepEqual(
        yield* store.commit([Given.commitOf({ ...stale, guard: { _tag: "Held", fence } }, [{ _tag: "Held", fence }])]),
        Given.refused(stale.plan.plan_id)
      )
      assert.deepEqual(yield* snapshot(stale), before)
    })
  },
  {
    title: "never changes a plan that is over",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const queued = yield* Given.create()
      yield* Given.settle(queued, aborted)
      const held = yield* Given.createHeld()
      yield* Given.settle(held)
      const before = yield* Effect.all([snapshot(queued), snapshot(held)])
      const refused = yield* store.commit([
        Given.commitOf(queued, [Given.settled()]),
        Given.commitOf(held, [advanced], [Given.row(2, "step")])
      ])
      assert.deepEqual(refused, Given.refused(queued.plan.plan_id, held.plan.plan_id))
      assert.deepEqual(yield* Effect.all([snapshot(queued), snapshot(held)]), before)
    })
  },
  {
    title: "stores a batch once that is written again, since its answer was lost",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const sessions = yield* SessionStore
      const held = yield* Given.createHeld()
      const commits = [
        Given.commitOf(
          held,
          [advanced, yield* Given.appended("hello")],
          [Given.row(2, "step"), Given.row(3, "queued")]
        ),
        Given.commitOf(held, [yield* Given.appended("again")])
      ]
      for (const commit of [...commits, ...commits.slice(1)]) {
        assert.deepEqual(yield* store.commit([commit]), new Map())
        assert.deepEqual(yield* store.commit([commit]), new Map())
      }
      assert.deepEqual(
        (yield* Given.eventsOf(held)).map(({ seq }) => seq),
        [1, 2, 3]
      )
      assert.equal((yield* sessions.messages(held.session_id, { limit: 10 })).items.length, 2)
    })
  },
  {
    title: "refuses the end of a plan that another replica has ended at the same time, and not the same end again",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const queued = yield* Given.create()
      yield* Given.abandon
      const taken = yield* Given.takeOver(queued, yield* Given.newReplica)
      const end = [Given.settled(aborted)]
      const stored = Given.commitOf(taken, end, [Given.row(2, "queued"), Given.row(3, "error"), Given.row(4, "done")])
      assert.deepEqual(yield* store.commit([stored]), new Map())
      const other = Given.commitOf(queued, end, [Given.row(2, "error"), Given.row(3, "done")])
      assert.deepEqual(yield* store.commit([other]), Given.refused(queued.plan.plan_id))
      assert.deepEqual(yield* store.commit([stored]), new Map())
    })
  },
  {
    title: "keeps the first reason to abort a plan, for the replica that has it, until it is over",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const stored = yield* Given.create()
      const { plan_id, replica } = stored.plan
      yield* store.requestAbort(plan_id, "superseded")
      yield* store.requestAbort(plan_id, "cancelled")
      assert.deepEqual(yield* store.abortRequests(replica), [{ plan_id, reason: "superseded" }])
      assert.deepEqual(yield* store.abortRequests(yield* Given.newReplica), [])
      yield* Given.settle(stored, aborted)
      assert.deepEqual(yield* store.abortRequests(replica), [])
      yield* store.requestAbort(plan_id, "cancelled")
      assert.deepEqual(yield* store.abortRequests(replica), [])
    })
  },
  {
    title: "stores nothing of an end whose session refuses the plan that continues it",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const held = yield* Given.createHeld()
      const { caller, plan_id } = held.plan
      const session_id = ExternalSessionId.make(held.session_id)
      const next = yield* Given.newPlan({ owner: caller })
      const other = yield* Given.newPlan({ owner: caller })
      yield* store.create({ ...other, request: { ...other.request, session_id } }, 10)
      const endBefore = (on_busy: "reject" | "queue") => {
        const preferences = { ...next.request.preferences, on_busy }
        const plan = { ...next, leaseTtl: undefined, request: { ...next.request, session_id, preferences } }
        const changes: ReadonlyArray<PlanChange> = [Given.settled(), { _tag: "Continued", plan }, { _tag: "Released" }]
        return [Given.commitOf(held, changes, [Given.row(2, "done")])]
      }
      const before = yield* snapshot(held)
      assert(Exit.isFailure(yield* Effect.exit(store.commit(endBefore("reject")))))
      assert.deepEqual(yield* snapshot(held), before)
      assert.deepEqual(yield* store.commit(endBefore("queue")), new Map())
      assert.equal((yield* store.get(caller, plan_id)).state, "completed")
      assert.equal((yield* store.get(caller, next.plan_id)).state, "queued")
    })
  }
]
