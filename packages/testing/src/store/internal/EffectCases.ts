import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { EffectState } from "@bowline/domain/unstable/tool/EffectState"
import { EffectStore } from "@bowline/runtime/unstable/store/EffectStore"
import type { Page } from "@bowline/runtime/unstable/store/Page"
import { type PlanChange, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect, Option } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

type Claimed = Extract<PlanChange, { readonly _tag: "EffectClaimed" }>

const claimed = (task_id: TaskId, key: string, given: Partial<Claimed> = {}): ReadonlyArray<PlanChange> => [
  Given.started(task_id, "bank_pay"),
  {
    _tag: "EffectClaimed",
    key,
    task_id,
    tool: "bank_pay",
    at: Given.at,
    expires_at: Given.farOff,
    follows: null,
    ...given
  }
]

const finished = (
  task_id: TaskId,
  effect?: "done" | "none" | "unknown",
  state: "completed" | "timed-out" = "completed"
): ReadonlyArray<PlanChange> => [
  { _tag: "TaskFinished", task_id, state, result: "paid", error: null, at: Given.later },
  ...(effect === undefined ? [] : [{ _tag: "EffectEnded" as const, task_id, state: effect }])
]

/** A call of a new plan of the owner that claims the effect. */
const claim = Effect.fnUntraced(function* (owner: CallerName, key: string, given?: Partial<Claimed>) {
  const held = yield* Given.createHeld({ owner })
  const task_id = yield* Given.newTask
  yield* Given.write(held, claimed(task_id, key, given), [Given.row(2, "task.started")])
  return { held, task_id }
})

const claimOf = Effect.fnUntraced(function* (owner: CallerName, key: string) {
  return Option.getOrUndefined(yield* (yield* PlanStore).claimOf(owner, key))
})

const holderOf = Effect.fnUntraced(function* (owner: CallerName, key: string) {
  const { state, task_id } = (yield* claimOf(owner, key)) ?? {}
  return { state, task_id }
})

export const effectCases: ReadonlyArray<StoreCase> = [
  {
    title: "lists the effects of a caller, the newest first, by tool and time and in pages, and forgets one",
    test: Effect.gen(function* () {
      const store = yield* EffectStore
      const owner = yield* Given.newOwner
      const made = []
      for (const [index, at] of [Given.at, Given.at, Given.at, Given.later].entries()) {
        made.push(yield* claim(owner, `${index}`, { at, tool: index === 0 ? "bank_refund" : "bank_pay" }))
      }
      yield* claim(owner, "old", { expires_at: "1970-01-01T00:00:00.000Z" })
      yield* claim(yield* Given.newOwner, "0")
      const idsOf = (items: ReadonlyArray<{ readonly task_id: TaskId }>) => items.map(({ task_id }) => task_id)
      const [refund, one, two, last] = idsOf(made)
      assert(refund !== undefined && one !== undefined && two !== undefined && last !== undefined)
      const whole = yield* store.list(owner, {}, { limit: 10 })
      assert.deepEqual(idsOf(whole.items), [last, ...[refund, one, two].toSorted()])
      assert.equal(whole.next, null)
      assert.deepEqual(whole.items[0], {
        effect_id: `effect_${last}`,
        tool: "bank_pay",
        state: "running",
        plan_id: made[3]?.held.plan.plan_id,
        task_id: last,
        claimed_at: Given.later,
        expires_at: Given.farOff
      })
      const paged: Array<TaskId> = []
      let cursor: number | null = null
      do {
        const page: Page<EffectState> = yield* store.list(owner, {}, { limit: 1, ...(cursor !== null && { cursor }) })
        paged.push(...idsOf(page.items))
        cursor = page.next
      } while (cursor !== null)
      assert.deepEqual(paged, idsOf(whole.items))
      const refunds = yield* store.list(owner, { tool: "bank_refund" }, { limit: 10 })
      assert.deepEqual(idsOf(refunds.items), [refund])
      assert.deepEqual(idsOf((yield* store.list(owner, { since: Given.later }, { limit: 10 })).items), [last])
      assert.equal(yield* store.forget(last), true)
      assert.equal(yield* store.forget(last), false)
      assert.equal((yield* store.list(owner, {}, { limit: 10 })).items.length, 3)
      const again = yield* claim(owner, "3")
      assert.equal((yield* claimOf(owner, "3"))?.task_id, again.task_id)
    })
  },
  {
    title: "gives an effect to the call that claims it first, for each caller and key",
    test: Effect.gen(function* () {
      const [ann, bob] = [yield* Given.newOwner, yield* Given.newOwner]
      assert.equal(yield* claimOf(ann, "a"), undefined)
      const first = yield* claim(ann, "a")
      yield* claim(ann, "a")
      const other = yield* claim(ann, "b")
      const bobs = yield* claim(bob, "a")
      assert.deepEqual(yield* claimOf(ann, "a"), {
        task_id: first.task_id,
        plan_id: first.held.plan.plan_id,
        at: Given.at,
        state: "running",
        result: null,
        taskId: null,
        contextId: null
      })
      assert.equal((yield* claimOf(ann, "b"))?.task_id, other.task_id)
      assert.equal((yield* claimOf(bob, "a"))?.task_id, bobs.task_id)
    })
  },
  {
    title: "gives an effect to one of the calls that claim it at once, in one batch or in several",
    test: Effect.gen(function* () {
      const owner = yield* Given.newOwner
      const store = yield* PlanStore
      const calls = yield* Effect.forEach(Array.from({ length: 6 }), () =>
        Effect.all({ held: Given.createHeld({ owner }), task_id: Given.newTask, second: Given.newTask })
      )
      const commits = calls.map(({ held, second, task_id }) =>
        Given.commitOf(held, [...claimed(task_id, "a"), ...claimed(second, "a")], [Given.row(2, "task.started")])
      )
      yield* Effect.forEach([commits.slice(0, 2), commits.slice(2, 4), commits.slice(4)], store.commit, {
        concurrency: "unbounded"
      })
      const claim = yield* claimOf(owner, "a")
      const winner = calls.find(({ second, task_id }) => claim?.task_id === task_id || claim?.task_id === second)
      assert.equal(winner?.held.plan.plan_id, claim?.plan_id)
    })
  },
  {
    title:
      "keeps the effect of a call that has done it, with what it returned if it has completed, and gives one that did nothing to the next call",
    test: Effect.gen(function* () {
      const owner = yield* Given.newOwner
      const first = yield* claim(owner, "a")
      yield* Given.write(first.held, finished(first.task_id, "none"), [Given.row(3, "task.finished")])
      assert.equal((yield* claimOf(owner, "a"))?.state, "none")
      const second = yield* claim(owner, "a")
      yield* Given.write(second.held, finished(second.task_id, "done"), [Given.row(3, "task.finished")])
      yield* claim(owner, "a")
      const { result, state, task_id } = (yield* claimOf(owner, "a")) ?? {}
      assert.deepEqual({ result, state, task_id }, { result: "paid", state: "done", task_id: second.task_id })
      const late = yield* claim(owner, "b")
      const changes = finished(late.task_id, "unknown", "timed-out")
      yield* Given.write(late.held, changes, [Given.row(3, "task.finished")])
      yield* Given.write(
        late.held,
        [{ _tag: "EffectEnded", task_id: late.task_id, state: "done" }],
        [Given.row(4, "step")]
      )
      const told = yield* claimOf(owner, "b")
      assert.deepEqual({ result: told?.result, state: told?.state }, { result: null, state: "done" })
    })
  },
  {
    title: "ends an effect in the batch in which another plan claims it",
    test: Effect.gen(function* () {
      const owner = yield* Given.newOwner
      const { held, task_id } = yield* claim(owner, "a")
      const next = yield* Given.createHeld({ owner })
      const wanting = yield* Given.newTask
      yield* (yield* PlanStore).commit([
        Given.commitOf(held, finished(task_id, "done"), [Given.row(3, "task.finished")]),
        Given.commitOf(next, claimed(wanting, "a"), [Given.row(2, "task.started")])
      ])
      assert.deepEqual(yield* holderOf(owner, "a"), { state: "done", task_id })
    })
  },
  {
    title:
      "knows nothing of the effect of a call that has ended, or whose plan is over, and has not said what it has done",
    test: Effect.gen(function* () {
      const owner = yield* Given.newOwner
      const ended = yield* claim(owner, "a")
      yield* Given.write(ended.held, finished(ended.task_id), [Given.row(3, "task.finished")])
      assert.equal((yield* claimOf(owner, "a"))?.state, "unknown")
      const over = yield* claim(owner, "b")
      yield* Given.settle(over.held)
      assert.equal((yield* claimOf(owner, "b"))?.state, "unknown")
    })
  },
  {
    title: "gives an unknown effect only to a call that follows the one that has it",
    test: Effect.gen(function* () {
      const owner = yield* Given.newOwner
      const first = yield* claim(owner, "a")
      yield* Given.write(first.held, finished(first.task_id, "unknown"), [Given.row(3, "task.finished")])
      yield* claim(owner, "a")
      yield* claim(owner, "a", { follows: yield* Given.newTask })
      assert.deepEqual(yield* holderOf(owner, "a"), { state: "unknown", task_id: first.task_id })
      const second = yield* claim(owner, "a", { follows: first.task_id })
      yield* claim(owner, "a", { follows: first.task_id })
      assert.deepEqual(yield* holderOf(owner, "a"), { state: "running", task_id: second.task_id })
    })
  },
  {
    title:
      "gives no effect that is known to be done to a call that follows the one that has it, nor in the batch that says so",
    test: Effect.gen(function* () {
      const owner = yield* Given.newOwner
      const first = yield* claim(owner, "a")
      yield* Given.write(first.held, finished(first.task_id, "done"), [Given.row(3, "task.finished")])
      yield* claim(owner, "a", { follows: first.task_id })
      assert.deepEqual(yield* holderOf(owner, "a"), { state: "done", task_id: first.task_id })
      const second = yield* claim(owner, "b")
      yield* Given.write(second.held, finished(second.task_id, "unknown"), [Given.row(3, "task.finished")])
      const next = yield* Given.createHeld({ owner })
      const done: PlanChange = { _tag: "EffectEnded", task_id: second.task_id, state: "done" }
      const claiming = claimed(yield* Given.newTask, "b", { follows: second.task_id })
      yield* (yield* PlanStore).commit([
        Given.commitOf(second.held, [done], [Given.row(4, "step")]),
        Given.commitOf(next, claiming, [Given.row(2, "task.started")])
      ])
      assert.deepEqual(yield* holderOf(owner, "b"), { state: "done", task_id: second.task_id })
    })
  },
  {
    title:
      "keeps an effect when its session is deleted, without what it returned, and forgets it when its time is over",
    test: Effect.gen(function* () {
      const owner = yield* Given.newOwner
      const { held, task_id } = yield* claim(owner, "a", { expires_at: Given.later })
      yield* Given.write(held, finished(task_id, "done"), [Given.row(3, "task.finished")])
      yield* Given.finish(held)
      const sessions = yield* SessionStore
      yield* sessions.delete(held.session_id)
      const { result, state } = (yield* claimOf(owner, "a")) ?? {}
      assert.deepEqual({ result, state }, { result: null, state: "done" })
      const late = yield* claim(owner, "a", { at: Given.later })
      assert.equal((yield* claimOf(owner, "a"))?.task_id, late.task_id)
      while (yield* sessions.sweep(fromMillis(Date.parse(Given.later) - 1)));
      assert.notEqual(yield* claimOf(owner, "a"), undefined)
      const gone = yield* claim(owner, "b", { expires_at: Given.later })
      while (yield* sessions.sweep(Given.later));
      assert.equal(yield* claimOf(owner, "b"), undefined, gone.task_id)
    })
  }
]
