import { NotFound } from "@bowline/domain/plan/Refusal"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { LeaseStore, type ReplicaId } from "@bowline/runtime/unstable/store/LeaseStore"
import { maxTargets, PushStore, type PushTarget, TooManyPushTargets } from "@bowline/runtime/unstable/store/PushStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { TaskStore } from "@bowline/runtime/unstable/store/TaskStore"
import { Effect, Option } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const start = { plan: 0, seq: 0 }

const target = (id: string): PushTarget => ({
  id,
  url: `http://${id}.test/`,
  wire: "1.0",
  scheme: "Bearer",
  secrets: "sealed"
})

/** A task that is notified at these places by a replica of its own. */
const given = Effect.fnUntraced(function* (...targets: ReadonlyArray<string>) {
  const held = yield* Given.createHeld()
  const { caller: owner, plan_id: task, replica } = held.plan
  const store = yield* PushStore
  for (const id of targets) yield* store.put(owner, task, target(id), { replica, cursor: start })
  return { held, owner, task, replica, session_id: held.session_id }
})

/** The targets of this task that the replica claims. */
const claimed = Effect.fnUntraced(function* (task: PlanId, replica: ReplicaId, running: ReadonlyArray<string> = []) {
  const keys = running.map((id) => ({ task_id: task, id }))
  const all = yield* (yield* PushStore).claim(replica, keys, 10_000)
  return all.filter(({ task_id }) => task_id === task)
})

export const pushCases: ReadonlyArray<StoreCase> = [
  {
    title: "keeps the places to notify of a task in their order, at most 8, for its owner only",
    test: Effect.gen(function* () {
      const store = yield* PushStore
      const ids = Array.from({ length: maxTargets }, (_, index) => `t${maxTargets - index}`)
      const { owner, replica, task } = yield* given(...ids)
      const place = { replica, cursor: start }
      assert.deepEqual(yield* store.list(owner, task), ids.map(target))
      assert.deepEqual(yield* Given.failureOf(store.put(owner, task, target("9"), place)), new TooManyPushTargets())
      const other = { ...target("t8"), url: "http://other.test/", secrets: null, scheme: null, wire: "0.3" }
      yield* store.put(owner, task, other, place)
      assert.deepEqual((yield* store.list(owner, task)).slice(0, 2), [other, target("t7")])
      const stranger = yield* Given.newOwner
      assert.deepEqual(yield* store.list(stranger, task), [])
      assert.equal(yield* store.remove(stranger, { task_id: task, id: "t8" }), false)
      const refused = yield* Given.failureOf(store.put(stranger, task, target("9"), place))
      assert.deepEqual(refused, new NotFound({ what: "plan" }))
      assert.equal(yield* store.remove(owner, { task_id: task, id: "t8" }), true)
      assert.equal(yield* store.remove(owner, { task_id: task, id: "t8" }), false)
      assert.deepEqual(yield* store.list(owner, task), ids.slice(1).map(target))
    })
  },
  {
    title: "gives a place to notify to one replica, and to another one when that is dead, with how far it came",
    test: Effect.gen(function* () {
      const store = yield* PushStore
      const { owner, replica, task } = yield* given("a")
      const other = yield* Given.newReplica
      assert.deepEqual(yield* claimed(task, other), [])
      const [first] = yield* claimed(task, replica)
      assert(first !== undefined)
      const common = { owner, task_id: task, target: target("a") }
      assert.deepEqual(first, { ...common, cursor: start, failing_since: null, fence: 2 })
      assert.deepEqual(yield* claimed(task, replica, ["a"]), [])
      const progress = { cursor: { plan: 0, seq: 7 }, failing_since: Date.parse(Given.at) }
      assert.equal(yield* store.progress(first, Option.some(progress)), true)
      yield* Given.abandon
      yield* (yield* LeaseStore).renew(other, Given.ttl)
      const [second, ...more] = [...(yield* claimed(task, other)), ...(yield* claimed(task, yield* Given.newReplica))]
      assert(second !== undefined)
      assert.deepEqual(more, [])
      assert.deepEqual(second, { ...common, ...progress, fence: 3 })
      assert.equal(yield* store.progress(first, Option.some({ cursor: start, failing_since: null })), false)
      assert.equal(yield* store.progress(first, Option.none()), false)
      yield* store.drop(first)
      assert.equal((yield* store.list(owner, task)).length, 1)
      const [third] = yield* claimed(task, other)
      assert(third !== undefined)
      assert.deepEqual(third.cursor, progress.cursor)
      yield* store.drop(third)
      assert.deepEqual(yield* store.list(owner, task), [])
    })
  },
  {
    title: "claims a place to notify again when its task has another plan, until the task is over",
    test: Effect.gen(function* () {
      const store = yield* PushStore
      const { owner, replica, task } = yield* given("a")
      const [first] = yield* claimed(task, replica)
      assert(first !== undefined)
      const cursor = { plan: 1, seq: 0 }
      assert.equal(yield* store.progress(first, Option.some({ cursor, failing_since: null })), true)
      assert.deepEqual(yield* claimed(task, replica), [])
      const task_message = { message_id: "message 2", task_id: task, metadata: {} }
      yield* Given.create({ task_message })
      assert.deepEqual(yield* claimed(task, replica), [])
      yield* Given.create({ owner, task_message })
      const [second] = yield* claimed(task, replica)
      assert.deepEqual(second, { ...first, cursor, fence: 3 })
      assert(second !== undefined)
      assert.equal(yield* store.progress(second, Option.none()), true)
      assert.deepEqual(yield* claimed(task, replica), [])
    })
  },
  {
    title: "claims a place to notify again when its task is cancelled that waited, unless another plan outdates that",
    test: Effect.gen(function* () {
      const store = yield* PushStore
      const { held, owner, replica, task } = yield* given("a")
      const reach = Effect.fnUntraced(function* (plan: number) {
        const [found] = yield* claimed(task, replica)
        assert(found !== undefined)
        yield* store.progress(found, Option.some({ cursor: { plan, seq: 0 }, failing_since: null }))
        return yield* claimed(task, replica)
      })
      yield* Given.settle(held)
      assert.deepEqual(yield* reach(1), [])
      yield* (yield* TaskStore).cancel(owner, task, Given.later)
      assert.deepEqual((yield* reach(1)).length, 1)
      const task_message = { message_id: "message 2", task_id: task, metadata: {} }
      yield* Given.create({ owner, task_message })
      assert.deepEqual(yield* reach(2), [])
    })
  },
  {
    title: "deletes the places to notify with the session of their task",
    test: Effect.gen(function* () {
      const { held, owner, session_id, task } = yield* given("a")
      yield* Given.finish(held)
      assert.equal(yield* (yield* SessionStore).delete(session_id), true)
      assert.deepEqual(yield* (yield* PushStore).list(owner, task), [])
    })
  }
]
