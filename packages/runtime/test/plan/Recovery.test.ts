import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/PlanId"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { SessionId } from "@bowline/domain/session/SessionId"
import { TaskId } from "@bowline/domain/tool/TaskId"
import { wait } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Option, Schema, Stream } from "effect"
import { Plans } from "../../src/plan/Plans.ts"
import { PlanStore } from "../../src/plan/PlanStore.ts"
import { LeaseStore } from "../../src/session/LeaseStore.ts"
import * as MemoryStore from "../../src/session/MemoryStore.ts"
import { SessionStore } from "../../src/session/SessionStore.ts"
import { fromEvents } from "../../src/stream/EventRow.ts"

const ttl = Duration.seconds(15)
const at = "1970-01-01T00:00:00.000Z"
const plan_id = PlanId.make("plan_00000000-0000-0000-0000-000000000001")
const task_id = TaskId.make("00000000-0000-0000-0000-000000000002")

/** A plan that its process left behind in the middle of a tool call. */
const leaveBehind = Effect.gen(function* () {
  const plans = yield* PlanStore
  const leases = yield* LeaseStore
  const request = yield* Schema.decodeUnknownEffect(PlanRequest)({ question: "?", session_id: "s" })
  yield* leases.renew("dead", ttl)
  const { session_id } = yield* plans.create(
    {
      plan_id,
      new_session_id: SessionId.make("session_00000000-0000-0000-0000-000000000003"),
      owner: anonymous,
      external_session_id: request.session_id ?? null,
      agents: [],
      history: [],
      prior_summary: "",
      idempotency: null,
      question: request.question,
      preferences: request.preferences,
      metadata: {},
      model: "scripted/model",
      route: { hops: 1, via: ["gateway"] },
      created_at: at,
      deadline_at: at,
      replica: "dead"
    },
    32
  )
  const fence = Option.getOrThrow(yield* leases.acquire(session_id, "dead", ttl))
  const fact = { task_id, tool: "bob_ask", kind: "peer", agent: "bob", skill: "ask", input: {} } as const
  yield* plans.commit(
    [
      {
        plan_id,
        session_id,
        guard: { _tag: "Held", fence },
        changes: [
          { _tag: "Held", fence },
          { _tag: "TaskStarted", ...fact, endpoint: null, state: "running", at },
          { _tag: "TaskAccepted", task_id, remote_task_id: "remote", remote_context_id: null }
        ],
        events: fromEvents(2, [{ event: "task.started", data: { ...fact, agent_did: null, agent_did_source: null } }])
      }
    ],
    true
  )
  return session_id
})

describe("Recovery", () => {
  it.effect("settles what a dead process left, once its lease is over, and lets the session go on", () =>
    Effect.gen(function* () {
      const session_id = yield* leaveBehind
      const store = yield* PlanStore
      yield* Effect.gen(function* () {
        const plans = yield* Plans
        yield* TestKit.pass("14 seconds", "1 second")
        assert.strictEqual((yield* store.get(anonymous, plan_id)).state, "running")
        yield* TestKit.pass("5 seconds", "1 second")
        const plan = yield* plans.get(anonymous, plan_id)
        assert.strictEqual(plan.state, "failed")
        assert.deepInclude(plan.error, { code: "interrupted", retryable: true })

        const { frames } = yield* plans.events(anonymous, plan_id, 0)
        const events = yield* TestKit.readAll(frames)
        assert.deepInclude(TestKit.single(events, "task.finished"), { state: "interrupted", remote_task_id: "remote" })
        assert.strictEqual(TestKit.single(events, "error").code, "interrupted")
        const { items } = yield* (yield* SessionStore).messages(session_id, { limit: 10 })
        assert.deepInclude(items.at(-1)?.parts[0], { type: "tool_result", task_id, state: "interrupted" })

        const next = yield* TestKit.post({ question: "And now?", session_id: "s" })
        assert.strictEqual(TestKit.single(yield* TestKit.readAll(next.frames), "final").text, "fine")
      }).pipe(Effect.provide(TestKit.layerOnStore({ script: [[say("fine")]] })))
    }).pipe(Effect.provide(MemoryStore.layer))
  )
})

describe("a lost lease", () => {
  it.effect("ends the stream without done, and writes nothing more", () =>
    Effect.gen(function* () {
      const { frames, session_id } = yield* TestKit.post({ question: "?" })
      const reader = yield* Effect.forkChild(Stream.runCollect(frames))
      yield* TestKit.pass("1 second")
      const leases = yield* LeaseStore
      yield* leases.release(session_id, 1)
      const [taken] = yield* (yield* PlanStore).takeOver("thief", Duration.days(1))
      assert.deepStrictEqual(taken?.guard, { _tag: "Held", fence: 2 })
      yield* TestKit.pass("30 seconds", "1 second")
      const items = yield* Effect.fromNullishOr(reader.pollUnsafe()).pipe(Effect.flatten)
      assert.strictEqual(items.at(-1), "reconnect")
      assert.notInclude(
        items.map((item) => (typeof item === "string" ? item : item.event)),
        "done"
      )
      const { items: messages } = yield* (yield* SessionStore).messages(session_id, { limit: 10 })
      assert.strictEqual(messages.length, 1)
    }).pipe(Effect.provide(TestKit.layer({ script: () => [wait("20 seconds"), say("too late")] })), Effect.scoped)
  )
})
