import type { Outcome } from "@bowline/domain/plan/Outcome"
import { type PlanFilter, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const failed: Outcome = {
  state: "failed",
  error: { code: "loop_detected", message: "Again \u0000", retryable: false, stage: "tool" }
}

/** A request as it is stored, with what edges in other protocols add. */
const sendable = { question: "Why \u0000?", agents: [{ name: "a", auth: { type: "bearer" } }], mcp_servers: [] }
const request = {
  ...sendable,
  instructions: "Be brief",
  sampling: { seed: 1 },
  session_ttl_ms: 0,
  task_message: { message_id: "m", metadata: {} }
}

export const planFactCases: ReadonlyArray<StoreCase> = [
  {
    title: "lists the plans to which every filter applies, also across pages",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const owner = yield* Given.newOwner
      const old = yield* Given.create({ owner, question: "Is 100% of it\u0000 Wool_?" })
      const other = { owner, model: "scripted/other", question: "How much?", created_at: Given.later }
      const newer = yield* Given.create(other)
      const failing = yield* Given.createHeld(other)
      yield* Given.settle(failing, failed)
      yield* Given.create()
      const found = (filter: PlanFilter) =>
        Effect.map(store.list(owner, filter, { limit: 10 }), ({ items }) => items.map(({ plan_id }) => plan_id))
      const [a, b, c] = [old.plan.plan_id, newer.plan.plan_id, failing.plan.plan_id]
      assert.deepEqual(yield* found({}), [c, b, a])
      assert.deepEqual(yield* found({ states: ["queued"] }), [b, a])
      assert.deepEqual(yield* found({ states: ["running", "failed"] }), [c])
      assert.deepEqual(yield* found({ model: "scripted/model" }), [a])
      assert.deepEqual(yield* found({ model: "scripted/mod" }), [])
      assert.deepEqual(yield* found({ error_code: "loop_detected" }), [c])
      assert.deepEqual(yield* found({ error_code: "loop\u0000" }), [])
      assert.deepEqual(yield* found({ since: Given.later }), [c, b])
      assert.deepEqual(yield* found({ until: Given.later }), [a])
      assert.deepEqual(yield* found({ since: Given.at, until: Given.at }), [])
      assert.deepEqual(yield* found({ q: "100% OF" }), [a])
      for (const q of ["%", "wool_"]) assert.deepEqual(yield* found({ q }), [a], q)
      for (const q of ["1__%", "_ool", "\\", "it\u0000 wool%"]) assert.deepEqual(yield* found({ q }), [], q)
      assert.deepEqual(yield* found({ q: "how", since: Given.later, states: ["queued"], model: other.model }), [b])

      const first = yield* store.list(owner, { since: Given.later }, { limit: 1 })
      yield* Given.create(other)
      assert(first.next !== null)
      const second = yield* store.list(owner, { since: Given.later }, { limit: 5, cursor: first.next })
      assert.deepEqual(
        [...first.items, ...second.items].map(({ plan_id }) => plan_id),
        [c, b]
      )
    })
  },
  {
    title: "lists the plans by what they have called, by their metadata, and by why they were aborted",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const owner = yield* Given.newOwner
      const odd = { 'a "key"\\': 'say "b":"c", \u0000 \ud800 ü', other: "1,2" }
      const ids = (stored: Given.Stored) => stored.plan.plan_id
      const plain = yield* Given.createHeld({ owner, metadata: {} })
      const calling = yield* Given.createHeld({ owner, metadata: { b: "c" } })
      const skill = { agent: "bob", endpoint: "http://bob.test/", skill: "ask" }
      for (const tool of ["bob_ask", "bob_ask\u0000"]) {
        yield* Given.write(calling, [Given.started(yield* Given.newTask, tool, skill)])
      }
      yield* Given.write(plain, [Given.started(yield* Given.newTask, "clock")])
      const aborted = yield* Given.createHeld({ owner, metadata: odd })
      yield* Given.settle(aborted, {
        state: "aborted",
        error: {
          code: "aborted",
          message: '"reason":"cancelled" \u0000',
          retryable: true,
          stage: null,
          reason: "deadline"
        }
      })
      const [a, b, c] = [ids(plain), ids(calling), ids(aborted)]
      const found = (filter: PlanFilter) =>
        Effect.map(store.list(owner, filter, { limit: 10 }), ({ items }) => items.map(({ plan_id }) => plan_id))
      assert.deepEqual(yield* found({ tool: "bob_ask" }), [b])
      assert.deepEqual(yield* found({ tool: "clock" }), [a])
      assert.deepEqual(yield* found({ tool: "clock", agent: "bob" }), [])
      assert.deepEqual(yield* found({ agent: "bob" }), [b])
      assert.deepEqual(yield* found({ agent: "bo" }), [])
      assert.deepEqual(yield* found({ reason: "deadline" }), [c])
      assert.deepEqual(yield* found({ reason: "cancelled" }), [])
      assert.deepEqual(yield* found({ metadata: [["b", "c"]] }), [b])
      assert.deepEqual(yield* found({ metadata: Object.entries(odd) }), [c])
      for (const entry of Object.entries(odd)) assert.deepEqual(yield* found({ metadata: [entry] }), [c])
      assert.deepEqual(
        yield* found({
          metadata: [
            ["b", "c"],
            ["other", "1,2"]
          ]
        }),
        []
      )
      assert.deepEqual(yield* found({ metadata: [["toString", "c"]] }), [])
      assert.deepEqual(yield* found({ metadata: [] }), [c, b, a])
    })
  },
  {
    title: "lists the plans of everybody where it is asked for no owner",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const created_at = "2046-01-02T03:04:05.678Z"
      const first = yield* Given.create({ created_at })
      const second = yield* Given.create({ created_at })
      const { items } = yield* store.list(undefined, { since: created_at }, { limit: 10 })
      assert.deepEqual(
        items.map(({ caller }) => caller),
        [second.plan.caller, first.plan.caller]
      )
    })
  },
  {
    title: "shows whose a plan is, how often it was asked again, and what it has cost, if that is known",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const held = yield* Given.createHeld()
      const { plan } = held
      const { caller, cost_usd, retries } = yield* Given.get(held)
      assert.deepEqual([caller, cost_usd, retries], [plan.caller, 0, 0])
      yield* Given.write(held, [{ _tag: "Progressed", stage: null, progress: { ...Given.progress, cost_usd: null } }])
      assert.deepEqual((yield* Given.get(held)).cost_usd, null)
      yield* Given.settle(held)
      const [shown] = (yield* store.list(plan.caller, {}, { limit: 1 })).items
      assert.deepEqual([shown?.caller, shown?.cost_usd, shown?.retries], [plan.caller, 0.000_25, 4])
      const unknown = yield* Given.create({ cost_usd: null })
      assert.equal((yield* Given.get(unknown)).cost_usd, null)
    })
  },
  {
    title: "shows the request of a plan without what callers cannot send, also when it is over",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const held = yield* Given.createHeld({ storedRequest: { request, secrets: "encrypted" } })
      yield* Given.settle(held)
      const { request: shown } = yield* Given.get(held)
      assert.deepEqual(shown, sendable)
      const { items } = yield* store.list(held.plan.caller, {}, { limit: 1 })
      assert(items.every((plan) => !("request" in plan)))
    })
  },
  {
    title: "keeps the time of each write with its events",
    test: Effect.gen(function* () {
      const stored = yield* Given.create()
      const between = "2026-01-02T03:04:59.999Z"
      yield* Given.write(stored, [], [{ ...Given.row(2, "queued"), at: between }])
      yield* Given.write(stored, [], [{ ...Given.row(3, "text.delta", "{}", 2), at: Given.later }])
      assert.deepEqual(
        (yield* Given.eventsOf(stored)).map(({ at, seq }) => [seq, at]),
        [
          [1, Given.at],
          [2, between],
          [3, Given.later]
        ]
      )
      yield* Given.abandon
      const { abandoned } = yield* Given.takeOver(stored, yield* Given.newReplica)
      assert.deepEqual(abandoned.tail, yield* Given.eventsOf(stored))
    })
  }
]
