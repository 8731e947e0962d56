import type { Outcome } from "@bowline/domain/plan/Outcome"
import { NotFound } from "@bowline/domain/plan/Refusal"
import type { TaskState } from "@bowline/domain/tool/TaskState"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { type TaskFilter, TaskStore } from "@bowline/runtime/unstable/store/TaskStore"
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const message = { message_id: "message 1", metadata: { "\u00fc": [1, null] } }
const page = { limit: 10 }
const bob = { agent: "bob", endpoint: "http://bob.test/", skill: "ask" }

const ended = (state: "failed" | "aborted", code: string, reason?: "deadline" | "cancelled"): Outcome => ({
  state,
  error: { code, message: "It is over", retryable: false, stage: null, ...(reason !== undefined && { reason }) }
})

/** A call of a tool that has ended like this. */
const call = Effect.fnUntraced(function* (held: Given.Stored, tool: string, state: TaskState) {
  const task_id = yield* Given.newTask
  const end = { task_id, state, result: "", error: null, at: Given.at }
  yield* Given.write(held, [Given.started(task_id, tool), { _tag: "TaskFinished", ...end }])
})

export const taskCases: ReadonlyArray<StoreCase> = [
  {
    title: "has the plans of a task in their order, each with its message, for their owner only",
    test: Effect.gen(function* () {
      const store = yield* TaskStore
      const owner = yield* Given.newOwner
      const first = yield* Given.create({ owner, task_message: message })
      const task = first.plan.plan_id
      const task_message = { ...message, message_id: "message 2", task_id: task }
      const second = yield* Given.create({ owner, task_message })
      yield* Given.create({ owner, task_message: message })
      yield* Given.create({ task_message })
      assert.deepEqual(yield* store.plans(owner, task), [
        { plan: yield* Given.factsOf(first), message, cancelled_at: null },
        { plan: yield* Given.factsOf(second), message: task_message, cancelled_at: null }
      ])
      const plain = yield* Given.create({ owner })
      assert.deepEqual(yield* store.plans(owner, plain.plan.plan_id), [
        { plan: yield* Given.factsOf(plain), message: null, cancelled_at: null }
      ])
      for (const [caller, id] of [
        [yield* Given.newOwner, task],
        [owner, second.plan.plan_id]
      ] as const) {
        assert.deepEqual(yield* Given.failureOf(store.plans(caller, id)), new NotFound({ what: "plan" }))
      }
    })
  },
  {
    title: "lists tasks by how their newest plan stands, the newest status first, page by page",
    test: Effect.gen(function* () {
      const store = yield* TaskStore
      const owner = yield* Given.newOwner
      const before = "2026-01-02T03:04:04.000Z"
      const queued = yield* Given.create({ owner, created_at: before })
      const done = yield* Given.createHeld({ owner })
      yield* Given.settle(done)
      const held = yield* Given.createHeld({ owner })
      const task_message = { ...message, task_id: held.plan.plan_id }
      yield* Given.settle(held)
      const next = yield* Given.create({ owner, task_message })
      const ids = (filter: TaskFilter = {}) =>
        Effect.map(store.list(owner, filter, page), ({ items, total }) => {
          assert.equal(total, items.length)
          return items.map(({ task_id }) => task_id)
        })
      const [a, b, c] = [done.plan.plan_id, held.plan.plan_id, queued.plan.plan_id]
      assert.deepEqual(yield* ids(), [a, b, c])
      assert.deepEqual(yield* ids({ since: Given.at }), [a, b])
      assert.deepEqual(yield* ids({ session: queued.session_id }), [c])
      assert.deepEqual(yield* ids({ standing: "submitted" }), [b, c])
      const one = yield* store.list(owner, {}, { limit: 1 })
      assert.deepEqual(one.items, [
        { task_id: a, plan: yield* Given.factsOf(done), standing: "completed", status_at: Given.later }
      ])
      const two = yield* store.list(owner, {}, { limit: 1, ...(one.next !== null && { cursor: one.next }) })
      assert.deepEqual([two.items[0]?.plan.plan_id, two.total], [next.plan.plan_id, 3])
      const three = yield* store.list(owner, {}, { limit: 1, ...(two.next !== null && { cursor: two.next }) })
      assert.deepEqual([three.items[0]?.task_id, three.next], [c, null])
      const none = yield* store.list(yield* Given.newOwner, {}, page)
      assert.deepEqual(none, { items: [], next: null, total: 0 })
    })
  },
  {
    title: "tells how a task stands by the end of its plan and by its calls, and finds it by that",
    test: Effect.gen(function* () {
      const store = yield* TaskStore
      const check = Effect.fnUntraced(function* (
        standing: TaskFilter["standing"] & string,
        outcome: Outcome | undefined,
        calls: ReadonlyArray<readonly [tool: string, state: TaskState]> = []
      ) {
        const owner = yield* Given.newOwner
        const held = yield* Given.createHeld({ owner })
        for (const [tool, state] of calls) yield* call(held, tool, state)
        if (outcome !== undefined) yield* Given.settle(held, outcome)
        const { items } = yield* store.list(owner, { standing }, page)
        assert.deepEqual([standing, ...items.map((item) => item.standing)], [standing, standing])
        const other = standing === "working" ? "completed" : "working"
        assert.deepEqual((yield* store.list(owner, { standing: other }, page)).items, [])
      })
      yield* check("working", undefined)
      yield* check("completed", Given.completed)
      yield* check("failed", ended("failed", "internal"))
      yield* check("failed", ended("failed", "budget_exceeded"))
      yield* check("failed", ended("aborted", "aborted", "deadline"))
      yield* check("canceled", ended("aborted", "aborted", "cancelled"))
      yield* check("input-required", Given.completed, [["a", "payment-required"]])
      yield* check("auth-required", Given.completed, [
        ["b", "input-required"],
        ["a", "auth-required"]
      ])
      yield* check("completed", Given.completed, [
        ["a", "input-required"],
        ["a", "completed"]
      ])
    })
  },
  {
    title: "tells of a running plan that it waits for an account, where nothing else is waited for",
    test: Effect.gen(function* () {
      const store = yield* TaskStore
      const owner = yield* Given.newOwner
      const held = yield* Given.createHeld({ owner })
      const standing = Effect.map(store.list(owner, {}, page), ({ items }) => items[0]?.standing)
      const client = { _tag: "Progressed", stage: "client", progress: Given.progress } as const
      const [account, result] = [yield* Given.newTask, yield* Given.newTask]
      yield* Given.write(held, [client, Given.waitOpened(account, { kind: "account" })])
      assert.equal(yield* standing, "auth-required")
      assert.equal((yield* store.list(owner, { standing: "auth-required" }, page)).total, 1)
      yield* Given.write(held, [Given.waitOpened(result, { kind: "result" })])
      assert.equal(yield* standing, "input-required")
      assert.equal((yield* store.list(owner, { standing: "auth-required" }, page)).total, 0)
    })
  },
  {
    title:
      "cancels a task that waits once: its owner, when its last plan has ended, and no later call continues what peers handed back",
    test: Effect.gen(function* () {
      const store = yield* TaskStore
      const owner = yield* Given.newOwner
      const held = yield* Given.createHeld({ owner })
      const { plan_id } = held.plan
      const task_id = yield* Given.newTask
      const remote = { remote_task_id: "remote", remote_context_id: "context" }
      const end = { task_id, state: "input-required", result: "", error: null, at: Given.at } as const
      yield* Given.write(held, [
        Given.started(task_id, "bob_ask", bob),
        { _tag: "TaskAccepted", task_id, ...remote },
        { _tag: "TaskFinished", ...end }
      ])
      const cancel = (by = owner, now = Given.later) => store.cancel(by, plan_id, now)
      assert.deepEqual(yield* cancel(), [])
      yield* Given.settle(held)
      assert.deepEqual(yield* cancel(yield* Given.newOwner), [])
      const waits = yield* store.list(owner, { standing: "input-required" }, page)
      assert.equal(waits.total, 1)
      const left = { ...bob, ...remote, preset: null }
      const sessions = yield* SessionStore
      assert.deepEqual(yield* sessions.handedBack(held.session_id), [left])
      assert.deepEqual(yield* cancel(), [left])
      assert.deepEqual(yield* cancel(owner, "2026-02-01T00:00:00.000Z"), [])
      assert.deepEqual(yield* sessions.handedBack(held.session_id), [])
      const [plan] = yield* store.plans(owner, plan_id)
      assert.equal(plan.cancelled_at, Given.later)
      const { items } = yield* store.list(owner, { standing: "canceled" }, page)
      assert.deepEqual([items[0]?.task_id, items[0]?.status_at], [plan_id, Given.later])
      yield* Given.create({ owner, task_message: { ...message, task_id: plan_id } })
      const continued = yield* store.list(owner, {}, page)
      assert.deepEqual(
        continued.items.map(({ standing }) => standing),
        ["submitted"]
      )
    })
  }
]
