import { ExternalSessionId } from "@bowline/domain/session/Session"
import * as Usage from "@bowline/domain/plan/Usage"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { notLast, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect, Option } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const rejecting = { ...Given.preferences, on_busy: "reject" as const }

export const createCases: ReadonlyArray<StoreCase> = [
  {
    title: "stores a plan as queued, with its session and the first event",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      const stored = yield* Given.create({
        external_session_id: yield* Given.newName,
        agents: [Given.agent("a")],
        preset: "knots"
      })
      const { plan, session_id } = stored
      assert.equal(session_id, plan.new_session_id)
      assert.deepEqual(yield* Given.get(stored), {
        plan_id: plan.plan_id,
        session_id,
        external_session_id: plan.request.session_id,
        state: "queued",
        stage: "queue",
        model: plan.model,
        caller: plan.caller,
        trace_id: "trace",
        preset: "knots",
        created_at: fromMillis(plan.createdAt),
        deadline_at: fromMillis(plan.deadline),
        finished_at: null,
        steps: 0,
        tool_calls: 0,
        retries: 0,
        usage: Usage.empty,
        cost_usd: 0,
        final: null,
        error: null,
        metadata: plan.request.metadata,
        question: plan.request.question,
        request: { question: "What is the \u0000 answer?" }
      })
      assert.deepEqual(yield* Given.eventsOf(stored), [
        Given.row(1, "session", JSON.stringify({ external_session_id: plan.request.session_id, created: true }))
      ])
      assert.deepEqual(yield* sessions.find(plan.caller, session_id), {
        session_id,
        external_session_id: plan.request.session_id,
        created_at: fromMillis(plan.createdAt),
        last_active_at: fromMillis(plan.createdAt),
        expires_at: "2026-02-01T03:04:05.678Z",
        summary: null,
        agents: [Given.agent("a")],
        message_count: 0
      })
    })
  },
  {
    title: "makes one session of many first requests at once",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const given = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
      const plans = yield* Effect.forEach(Array.from({ length: 8 }), () => Given.newPlan(given))
      const results = yield* Effect.forEach(plans, (plan) => store.create(plan, 32), { concurrency: "unbounded" })
      assert.equal(new Set(results.map(({ session_id }) => session_id)).size, 1)
      assert.deepEqual(results.filter(({ created }) => created).length, 1)
      assert(results.every(({ external_session_id }) => external_session_id === given.external_session_id))
      const sessions = yield* (yield* SessionStore).list(given.owner, { limit: 10 })
      assert.equal(sessions.items.length, 1)
    })
  },
  {
    title:
      "refuses a plan that does not follow the last one of its session, and writes nothing; of two at once one follows",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
      const { plan: first, session_id } = yield* Given.create(session)
      // The lease of a plan that ended is free: a plan that is refused must not take it.
      const given = { ...session, follows: first.plan_id, leaseTtl: Given.ttl }
      const plans = yield* Effect.forEach(["a", "b"], (question) => Given.newPlan({ ...given, question }))
      const results = yield* Effect.forEach(plans, (plan) => Given.failureOf(store.create(plan, 32)), {
        concurrency: "unbounded"
      })
      const refused = results.filter((failure) => failure !== undefined)
      assert.deepEqual(refused, [notLast])
      const second = plans[results.indexOf(undefined)] ?? assert.fail()
      const idempotency = { key: "a", body: "x", expires_at: Given.farOff }
      const again = yield* Given.newPlan({ ...given, idempotency })
      assert.deepEqual(yield* Given.failureOf(store.create(again, 32)), notLast)
      const known = yield* store.findByKey(session.owner, { key: "a", body: "x" }, Given.at)
      assert.equal(Option.isNone(known), true)
      yield* Given.create({ ...session, follows: second.plan_id })
      const { items } = yield* store.list(session.owner, { session: session_id }, { limit: 10 })
      assert.equal(items.length, 3)
    })
  },
  {
    title: "goes on with a session by the gateway's id of it, for its owner only",
    test: Effect.gen(function* () {
      const first = yield* Given.create({ external_session_id: yield* Given.newName })
      const external_session_id = ExternalSessionId.make(first.session_id)
      const second = yield* Given.create({ owner: first.plan.caller, external_session_id })
      const stranger = yield* Given.create({ external_session_id })
      assert.equal(second.session_id, first.session_id)
      assert.equal((yield* Given.get(second)).external_session_id, first.plan.request.session_id)
      assert.equal(stranger.session_id, stranger.plan.new_session_id)
    })
  },
  {
    title: "merges the agents of a session by their names",
    test: Effect.gen(function* () {
      const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
      yield* Given.create({ ...session, agents: [Given.agent("a"), Given.agent("b")] })
      yield* Given.create({ ...session, agents: [Given.agent("c"), Given.agent("a", "http://moved.test/")] })
      const { agents } = yield* (yield* SessionStore).find(session.owner, session.external_session_id)
      assert.deepEqual(agents, [Given.agent("a", "http://moved.test/"), Given.agent("b"), Given.agent("c")])
    })
  },
  {
    title: "gives a session to one of two that would not wait for it, and writes nothing of the other",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
      const plans = yield* Effect.forEach(["a", "b"], (name) =>
        Given.newPlan({ ...session, preferences: rejecting, agents: [Given.agent(name)] })
      )
      const [a, b] = yield* Effect.forEach(plans, (plan) => Effect.result(store.create(plan, 32)), {
        concurrency: "unbounded"
      })
      assert.deepEqual(new Set([a?._tag, b?._tag]), new Set(["Failure", "Success"]))
      assert.equal((yield* store.list(session.owner, {}, { limit: 10 })).items.length, 1)
      const { agents } = yield* (yield* SessionStore).find(session.owner, session.external_session_id)
      assert.deepEqual(agents, [Given.agent(a?._tag === "Success" ? "a" : "b")])
    })
  },
  {
    title: "lets a plan that would not wait have its session once the other plan is over",
    test: Effect.gen(function* () {
      const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
      const first = yield* Given.createHeld(session)
      const busy = yield* Given.failureOf(Given.create({ ...session, preferences: rejecting }))
      assert.equal(busy?._tag, "SessionBusy")
      yield* Given.finish(first)
      yield* Given.create({ ...session, preferences: rejecting })
    })
  },
  {
    title: "lets as many plans wait as may, besides the one that has the session",
    test: Effect.gen(function* () {
      const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
      const first = yield* Given.create(session, 2)
      yield* Given.create(session, 2)
      yield* Given.create(session, 2)
      assert.equal((yield* Given.failureOf(Given.create(session, 2)))?._tag, "SessionBusy")
      const held = yield* Given.hold(first)
      assert.equal((yield* Given.failureOf(Given.create(session, 2)))?._tag, "SessionBusy")
      yield* Given.finish(held)
      yield* Given.create(session, 2)
    })
  }
]
