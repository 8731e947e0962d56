import { NotFound } from "@bowline/domain/plan/Refusal"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { WebhookEvent } from "@bowline/domain/unstable/plan/Webhook"
import { LeaseStore, type ReplicaId } from "@bowline/runtime/unstable/store/LeaseStore"
import { type PlanChange, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import {
  maxTargets,
  type NewWebhook,
  PushStore,
  type PushTarget,
  TooManyPushTargets,
  type Tried
} from "@bowline/runtime/unstable/store/PushStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { TaskStore } from "@bowline/runtime/unstable/store/TaskStore"
import { Effect, Option } from "effect"
import assert from "node:assert/strict"
import { ExternalSessionId } from "@bowline/domain/session/Session"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const start = { plan: 0, seq: 0 }

const target = (id: string): PushTarget => ({
  id,
  url: `http://${id}.test/`,
  wire: "1.0",
  scheme: "Bearer",
  secrets: "sealed",
  webhook: null
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

const delivered: Tried = { state: "delivered", status: 204, failing_since: null, retryInMs: 0, isGone: false }

/** A plan that has two webhooks: one is told of ends and approvals, the other one of ends. `commit` is one of its plan, with an event of this number. */
const givenWebhooks = Effect.gen(function* () {
  const webhook = (url: string, ...events: ReadonlyArray<WebhookEvent>): NewWebhook => ({
    url,
    events: ["plan.completed", ...events],
    secrets: "sealed",
    settings: { secret_env_var: null, has_final: false, is_configured: false }
  })
  const held = yield* Given.createHeld({
    webhooks: [webhook("http://a.test/", "approval.requested"), webhook("http://b.test/")]
  })
  const { caller: owner, plan_id: task, replica } = held.plan
  const commit = Effect.fnUntraced(function* (changes: ReadonlyArray<PlanChange>, seq: number) {
    return Given.commitOf(held, changes, [Given.row(seq, "step")])
  })
  return { held, commit, owner, task, replica, session_id: held.session_id }
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
  },
  {
    title: "tells webhooks of a plan its end and the waits that begin, each event once, in order, to one replica",
    test: Effect.gen(function* () {
      const store = yield* PushStore
      const { commit, owner, task, replica } = yield* givenWebhooks
      assert.deepEqual(yield* store.list(owner, task), [])
      assert.deepEqual(yield* claimed(task, replica), [])
      const task_id = yield* Given.newTask
      const waits = yield* commit([Given.waitOpened(task_id)], 2)
      yield* (yield* PlanStore).commit([waits])
      yield* (yield* PlanStore).commit([waits])
      yield* (yield* PlanStore).commit([yield* commit([Given.settled()], 3)])
      const events = (yield* store.deliveries(owner, task)).map(({ event, state, url }) => [url, event, state])
      assert.deepEqual(events, [
        ["http://a.test/", "approval.requested", "pending"],
        ["http://a.test/", "plan.completed", "pending"],
        ["http://b.test/", "plan.completed", "pending"]
      ])
      assert.deepEqual(yield* store.deliveries(yield* Given.newOwner, task), [])
      const [first, second, ...more] = yield* claimed(task, replica)
      assert(first !== undefined && second !== undefined)
      assert.deepEqual(more, [])
      assert.deepEqual(yield* claimed(task, replica, ["webhook_0", "webhook_1"]), [])
      const next = Option.getOrThrow(yield* store.nextDelivery(first))
      assert.equal(next.event, "approval.requested")
      assert.deepEqual(next.wait, {
        task_id,
        kind: "approval",
        tool: "rigger_ask",
        agent: "rigger \u0000",
        expires_at: Given.farOff
      })
      assert.equal(yield* store.tried(first, next.delivery_id, delivered), true)
      const last = Option.getOrThrow(yield* store.nextDelivery(first))
      assert.deepEqual([last.event, last.wait, last.at, last.tries], ["plan.completed", null, Given.later, 0])
      assert.equal(yield* store.tried(first, last.delivery_id, delivered), true)
      assert.deepEqual(yield* store.nextDelivery(first), Option.none())
      assert.deepEqual(
        (yield* claimed(task, replica)).map(({ target }) => target.id),
        ["webhook_1"]
      )
    })
  },
  {
    title: "tries a delivery to a webhook again when it is due, not before, and drops the others of one that is gone",
    test: Effect.gen(function* () {
      const store = yield* PushStore
      const { commit, owner, task, replica } = yield* givenWebhooks
      const plans = yield* PlanStore
      yield* plans.commit([yield* commit([Given.waitOpened(yield* Given.newTask)], 2)])
      const [first] = yield* claimed(task, replica)
      assert(first !== undefined)
      const due = Option.getOrThrow(yield* store.nextDelivery(first))
      const failing = { ...delivered, state: "pending", status: 503, failing_since: 7_000 } as const
      assert.equal(yield* store.tried(first, due.delivery_id, { ...failing, retryInMs: 60_000 }), true)
      yield* plans.commit([yield* commit([Given.settled()], 3)])
      // The end is due, and has to wait for what came before.
      const [again] = yield* claimed(task, replica, ["webhook_1"])
      assert(again !== undefined)
      assert.equal(yield* store.tried(first, due.delivery_id, delivered), false)
      const waiting = Option.getOrThrow(yield* store.nextDelivery(again))
      assert.deepEqual([waiting.delivery_id, waiting.tries, waiting.failing_since], [due.delivery_id, 1, 7_000])
      assert(waiting.dueInMs > 30_000 && waiting.dueInMs <= 60_000)
      assert.equal(yield* store.tried(again, due.delivery_id, { retryInMs: waiting.dueInMs }), true)
      assert.deepEqual(yield* claimed(task, replica, ["webhook_1"]), [])
      const other = yield* Given.newReplica
      assert.deepEqual(yield* store.retry(yield* Given.newOwner, task, due.delivery_id, other), Option.none())
      assert.deepEqual(yield* store.retry(owner, task, "delivery_1", other), Option.none())
      const retried = Option.getOrThrow(yield* store.retry(owner, task, due.delivery_id, other))
      assert.deepEqual([retried.state, retried.tries, retried.last_status], ["pending", 1, 503])
      yield* (yield* LeaseStore).renew(other, Given.ttl)
      const [mine] = (yield* claimed(task, other)).filter(({ target }) => target.id === "webhook_0")
      assert(mine !== undefined)
      assert.equal(
        yield* store.tried(mine, due.delivery_id, { ...delivered, state: "dropped", status: 410, isGone: true }),
        true
      )
      const states = (yield* store.deliveries(owner, task)).map(({ last_status, next_try_at, state, tries, url }) => {
        return [url, state, tries, last_status, next_try_at === null]
      })
      assert.deepEqual(states, [
        ["http://a.test/", "dropped", 2, 410, true],
        ["http://a.test/", "dropped", 0, null, true],
        ["http://b.test/", "pending", 0, null, false]
      ])
    })
  },
  {
    title: "gives the webhooks of a plan to the plan that continues it, and deletes them with the session",
    test: Effect.gen(function* () {
      const store = yield* PushStore
      const { commit, owner, task, replica, session_id } = yield* givenWebhooks
      const given = yield* Given.newPlan({ owner, replica })
      const request = { ...given.request, session_id: ExternalSessionId.make(session_id) }
      const plan = { ...given, request, leaseTtl: undefined }
      const end = [Given.settled(), { _tag: "Continued", plan } as const, { _tag: "Released" } as const]
      yield* (yield* PlanStore).commit([yield* commit(end, 2)])
      assert.equal((yield* store.deliveries(owner, task)).length, 2)
      yield* Given.finish(yield* Given.hold({ plan, session_id, guard: { _tag: "Queued", replica, fence: 0 } }))
      const told = (yield* store.deliveries(owner, plan.plan_id)).map(({ event, url }) => [url, event])
      assert.deepEqual(told, [
        ["http://a.test/", "plan.completed"],
        ["http://b.test/", "plan.completed"]
      ])
      assert.equal(yield* (yield* SessionStore).delete(session_id), true)
      assert.deepEqual(yield* store.deliveries(owner, task), [])
    })
  },
  {
    title: "keeps a session that has expired until its webhooks were told, but not from whoever deletes it",
    test: Effect.gen(function* () {
      const store = yield* PushStore
      const sessions = yield* SessionStore
      const [left, deleted] = [yield* givenWebhooks, yield* givenWebhooks]
      for (const { commit } of [left, deleted]) yield* (yield* PlanStore).commit([yield* commit([Given.settled()], 2)])
      const { owner, replica, session_id, task } = left
      const sweep = Effect.repeat(sessions.sweep("2026-02-02T03:04:05.678Z"), { while: (isMore) => isMore })
      yield* sweep
      assert.equal(yield* sessions.delete(session_id, "telling"), false)
      for (const claim of yield* claimed(task, replica)) {
        assert.equal((yield* store.deliveries(owner, task)).length, 2)
        const { delivery_id } = Option.getOrThrow(yield* store.nextDelivery(claim))
        assert.equal(yield* store.tried(claim, delivery_id, delivered), true)
      }
      assert.equal((yield* store.deliveries(owner, task)).length, 2)
      yield* sweep
      assert.deepEqual(yield* store.deliveries(owner, task), [])
      assert.equal((yield* store.deliveries(deleted.owner, deleted.task)).length, 2)
      assert.equal(yield* sessions.delete(deleted.session_id), true)
    })
  }
]
