import type { TaskId } from "@bowline/domain/tool/TaskState"
import { type PlanChange, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { emptyInbox } from "@bowline/runtime/unstable/store/InboxStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { Effect, Option } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

/** What each of two replicas gets of these plans when both take over at once. */
const takenByTwo = Effect.fnUntraced(function* (plans: ReadonlyArray<Given.Stored>) {
  const store = yield* PlanStore
  const replicas = [yield* Given.newReplica, yield* Given.newReplica]
  const ids = new Set(plans.map(({ plan }) => plan.plan_id))
  const taken = yield* Effect.forEach(replicas, (replica) => store.takeOver(replica, Given.ttl, 10_000), {
    concurrency: "unbounded"
  })
  // A plan that one of them was busy with is left to the other, or to the next round.
  taken.push(...(yield* Effect.forEach(replicas, (replica) => store.takeOver(replica, Given.ttl, 10_000))))
  return taken.flat().filter(({ plan }) => ids.has(plan.plan_id))
})

const isTaken = Effect.fnUntraced(function* ({ plan }: Given.Stored) {
  const taken = yield* (yield* PlanStore).takeOver(yield* Given.newReplica, Given.ttl, 10_000)
  return taken.some((left) => left.plan.plan_id === plan.plan_id)
})

export const takeOverCases: ReadonlyArray<StoreCase> = [
  {
    title: "gives each plan that was left behind to one replica",
    test: Effect.gen(function* () {
      const plans = yield* Effect.forEach(Array.from({ length: 6 }), (_, index) =>
        index % 2 === 0 ? Given.create() : Given.createHeld()
      )
      yield* Given.abandon
      const taken = yield* takenByTwo(plans)
      assert.deepEqual(taken.map(({ plan }) => plan.plan_id).sort(), plans.map(({ plan }) => plan.plan_id).sort())
    })
  },
  {
    title: "tells by its own clock how long the plan may run yet, though the replica that created it had another one",
    test: Effect.gen(function* () {
      const stored = yield* Given.create({
        created_at: "2001-01-01T00:00:00.000Z",
        deadline: Date.parse("2001-01-02T00:00:00.000Z")
      })
      yield* Given.abandon
      const { leftMs } = (yield* Given.takeOver(stored, yield* Given.newReplica)).abandoned
      const day = 86_400_000
      assert.ok(leftMs > day / 2 && leftMs <= day, `${leftMs} ms are left`)
    })
  },
  {
    title: "takes a queued plan over with what was said of it, and a guard that the old replica does not have",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const stored = yield* Given.create()
      const { plan_id } = stored.plan
      yield* Given.write(stored, [], [Given.row(2, "queued")])
      yield* store.requestAbort(plan_id, "cancelled")
      yield* Given.abandon
      const replica = yield* Given.newReplica
      const taken = yield* Given.takeOver(stored, replica)
      assert.deepEqual(taken.abandoned, {
        plan: yield* Given.factsOf(stored),
        owner: stored.plan.caller,
        guard: { _tag: "Queued", replica, fence: 1 },
        request: stored.plan.storedRequest,
        preferences: stored.plan.request.preferences,
        route: stored.plan.route,
        leftMs: taken.abandoned.leftMs,
        deaths: 0,
        wokenBy: null,
        gist: { seq: 1, isEnded: false, events: [] },
        inbox: emptyInbox(stored.plan.plan_id),
        waits: [],
        tail: yield* Given.eventsOf(stored),
        tasks: [],
        unanswered: []
      })
      assert.deepEqual(
        taken.abandoned.tail.map(({ event }) => event),
        ["session", "queued"]
      )
      assert.equal(taken.abandoned.plan.state, "queued")
      assert.deepEqual(yield* store.abortRequests(replica), [{ plan_id, reason: "cancelled" }])
      assert.deepEqual(yield* store.abortRequests(stored.plan.replica), [])
      yield* Given.write(taken, [], [Given.row(3, "queued")])
      yield* Given.hold({ ...taken, plan: { ...taken.plan, replica } })
    })
  },
  {
    title:
      "takes a running plan over with the lease of its session, its request, its last step, all its tasks, and the calls without a result",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const leases = yield* LeaseStore
      const held = yield* Given.createHeld({ storedRequest: { request: { question: "\u0000" }, secrets: null } })
      const { caller: owner, storedRequest: request, route } = held.plan
      const [open, sent, done] = [yield* Given.newTask, yield* Given.newTask, yield* Given.newTask]
      const [first, unmade] = [yield* Given.newTask, yield* Given.newTask]
      const called = (task_id: TaskId) => ({ type: "tool_call", task_id, tool: "eve_ask", input: {} }) as const
      const answered = (task_id: TaskId) =>
        Given.message("tool", { type: "tool_result", task_id, state: "completed", content: "yes" })
      const skill = { agent: "eve", endpoint: "http://eve.test/", skill: "ask" }
      yield* Given.write(
        held,
        [
          yield* Given.appended("and now?"),
          yield* Given.message("assistant", called(first)),
          yield* answered(first),
          yield* Given.message("assistant", called(unmade), called(sent), called(done), called(open)),
          Given.started(done, "eve_ask", skill),
          Given.started(sent, "eve_ask", skill)
        ],
        [Given.row(2, "step", '{"step":1}'), Given.row(3, "text.delta", "{}", 4)]
      )
      const finished: PlanChange = {
        _tag: "TaskFinished",
        task_id: done,
        state: "input-required",
        result: "yes \u0000",
        error: null,
        at: Given.later
      }
      const accepted = (task_id: TaskId): PlanChange => ({
        _tag: "TaskAccepted",
        task_id,
        remote_task_id: `remote ${task_id}`,
        remote_context_id: "context"
      })
      const tail = [
        Given.row(7, "step", '{"step":2}'),
        Given.row(8, "text.delta", "{}", 4),
        Given.row(12, "task.started")
      ]
      yield* Given.write(held, [accepted(done), finished, yield* answered(done), accepted(sent)], tail.slice(0, 2))
      yield* Given.write(held, [Given.started(open, "bob_ask \uFFFD")], tail.slice(2))
      yield* Given.abandon
      const replica = yield* Given.newReplica
      const taken = yield* Given.takeOver(held, replica)

      const task = { tool: "eve_ask", kind: "peer", ...skill, started_at: Given.at }
      const remote = (id: TaskId) => ({ task_id: id, remote_task_id: `remote ${id}`, remote_context_id: "context" })
      assert.deepEqual(taken.abandoned, {
        plan: yield* Given.factsOf(held),
        owner,
        guard: { _tag: "Held", fence: held.fence + 1 },
        request,
        preferences: held.plan.request.preferences,
        route,
        leftMs: taken.abandoned.leftMs,
        deaths: 1,
        wokenBy: null,
        gist: taken.abandoned.gist,
        inbox: emptyInbox(held.plan.plan_id),
        waits: [],
        tail,
        tasks: [
          { ...task, ...remote(done), state: "input-required" },
          { ...task, ...remote(sent), state: "running" },
          {
            ...task,
            task_id: open,
            tool: "bob_ask \uFFFD",
            agent: null,
            endpoint: null,
            skill: null,
            remote_task_id: null,
            remote_context_id: null,
            state: "running"
          }
        ],
        unanswered: [unmade, sent, open]
      })
      assert.deepEqual(yield* leases.acquire(held.session_id, yield* Given.newReplica, Given.ttl), Option.none())
      assert.equal((yield* leases.renew(replica, Given.ttl)).held.get(held.session_id), taken.fence)
      assert.deepEqual(
        yield* store.commit([Given.commitOf(held, [], [Given.row(13, "error")])]),
        Given.refused(held.plan.plan_id)
      )
      yield* Given.write(taken, [], [Given.row(13, "error")])
      yield* Given.settle(taken)
    })
  },
  {
    title: "leaves a plan to a replica that lives, even if it has only just come",
    test: Effect.gen(function* () {
      const leases = yield* LeaseStore
      const first = yield* Given.create()
      assert.equal(yield* isTaken(first), false)
      yield* Given.abandon
      yield* leases.renew(first.plan.replica, Given.ttl)
      assert.equal(yield* isTaken(first), false)
    })
  },
  {
    title: "takes over a running plan as soon as nobody holds its session, though its replica lives, or asks itself",
    test: Effect.gen(function* () {
      const leases = yield* LeaseStore
      const held = yield* Given.createHeld()
      const { replica } = held.plan
      yield* leases.renew(replica, Given.ttl)
      assert.equal(yield* isTaken(held), false)
      yield* leases.release(held.session_id, held.fence)
      const other = yield* Given.newReplica
      assert.equal((yield* Given.takeOver(held, other)).abandoned.deaths, 1)
      yield* Given.abandon
      // Whoever lost a plan himself, and is there, has not died of it.
      assert.equal((yield* Given.takeOver(held, other)).abandoned.deaths, 1)
      yield* Given.abandon
      assert.equal((yield* Given.takeOver(held, replica)).abandoned.deaths, 2)
    })
  },
  {
    title: "takes no more plans over than it is asked to, and leaves the others for the next time",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const plans = yield* Effect.forEach(Array.from({ length: 4 }), (_, index) =>
        index % 2 === 0 ? Given.create() : Given.createHeld()
      )
      yield* Given.abandon
      const ids = new Set(plans.map(({ plan }) => plan.plan_id))
      const taken: Array<string> = []
      const replica = yield* Given.newReplica
      // There may be others in the same store.
      for (;;) {
        const some = yield* store.takeOver(replica, Given.ttl, 3)
        assert(some.length <= 3)
        if (some.length === 0) break
        taken.push(...some.map(({ plan }) => plan.plan_id).filter((id) => ids.has(id)))
      }
      assert.deepEqual(taken.sort(), Array.from(ids).sort())
    })
  },
  {
    title: "gives a replica of its own queued plans those that it has forgotten, once, with a new fence",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const replica = yield* Given.newReplica
      const [forgotten, waiting] = [yield* Given.create({ replica }), yield* Given.create({ replica })]
      const running = yield* Given.createHeld({ replica })
      const other = yield* Given.create()
      assert.deepEqual(
        new Set((yield* store.abandoned(replica)).queued),
        new Set([forgotten.plan.plan_id, waiting.plan.plan_id])
      )
      const ids = [forgotten, running].map(({ plan }) => plan.plan_id)
      const taken = yield* store.takeOver(replica, Given.ttl, 10_000, ids)
      const own = taken.filter(({ plan }) =>
        [forgotten, waiting, running, other].some((stored) => stored.plan.plan_id === plan.plan_id)
      )
      assert.deepEqual(
        own.map(({ plan, guard }) => [plan.plan_id, guard]),
        [[forgotten.plan.plan_id, { _tag: "Queued", replica, fence: 1 }]]
      )
      assert.deepEqual(yield* store.commit([Given.commitOf(forgotten, [Given.settled()])]), Given.refused(ids[0]))
    })
  },
  {
    title: "leaves a plan that is over as it is",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      yield* Given.settle(held)
      yield* Given.abandon
      assert.equal(yield* isTaken(held), false)
    })
  }
]
