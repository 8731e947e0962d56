import type { GivenDecision } from "@bowline/domain/plan/Approval"
import { ApprovalConflict, NotFound } from "@bowline/domain/plan/Refusal"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { ApprovalStore } from "@bowline/runtime/unstable/store/ApprovalStore"
import { type PlanChange, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const input = { question: "\u0000" }
const requested = (task_id: TaskId): PlanChange => ({
  _tag: "ApprovalRequested",
  task_id,
  tool: "rigger_ask",
  agent: "rigger \u0000",
  input,
  why: "sensitive",
  tool_digest: null,
  known_tool: null
})

/** A running plan of which a call waits. */
const waiting = Effect.fnUntraced(function* (given?: Parameters<typeof Given.createHeld>[0]) {
  const held = yield* Given.createHeld(given)
  const task_id = yield* Given.newTask
  yield* Given.write(held, [requested(task_id)], [Given.row(2, "approval.requested")])
  return { held, approval: { plan_id: held.plan.plan_id, task_id } }
})

const approve = Effect.map(Given.newOwner, (by): GivenDecision => ({ decision: "approve", by }))
const reject = Effect.map(Given.newOwner, (by): GivenDecision => ({ decision: "reject", note: "Not on a Friday", by }))

const page = { limit: 10 }

export const approvalCases: ReadonlyArray<StoreCase> = [
  {
    title: "shows what waits for a decision to its owner, newest first, until somebody has decided",
    test: Effect.gen(function* () {
      const store = yield* ApprovalStore
      const owner = yield* Given.newOwner
      const [first, second] = [yield* waiting({ owner }), yield* waiting({ owner })]
      const newer = yield* Given.newTask
      yield* Given.write(first.held, [requested(newer)], [Given.row(3, "approval.requested")])
      yield* waiting()
      const { items, next } = yield* store.pending(owner, page)
      assert.equal(next, null)
      assert.deepEqual(items[2], {
        ...first.approval,
        session_id: first.held.session_id,
        tool: "rigger_ask",
        agent: items[2]?.agent,
        input,
        why: "sensitive",
        expires_at: Given.later,
        caller: owner
      })
      assert.match(items[2]?.agent ?? "", /^rigger [\0\uFFFD]$/)
      const ids = [newer, second.approval.task_id, first.approval.task_id]
      assert.deepEqual(
        items.map(({ task_id }) => task_id),
        ids
      )
      const top = yield* store.pending(owner, { limit: 2 })
      assert(top.next !== null)
      const rest = yield* store.pending(owner, { limit: 2, cursor: top.next })
      assert.deepEqual(
        [...top.items, ...rest.items].map(({ task_id }) => task_id),
        ids
      )
      const ofPlan = store.ofPlan(owner, first.approval.plan_id)
      assert.deepEqual(yield* ofPlan, [items[0], items[2]])
      assert.deepEqual(yield* store.ofPlan(yield* Given.newOwner, first.approval.plan_id), [])
      yield* store.decide(second.approval, yield* approve)
      assert.equal((yield* store.pending(owner, page)).items.length, 2)
      yield* store.decide({ ...first.approval, task_id: newer }, yield* approve)
      assert.deepEqual(yield* ofPlan, [items[2]])
    })
  },
  {
    title: "keeps the first decision about a call, of several at once one, and tells who made it",
    test: Effect.gen(function* () {
      const store = yield* ApprovalStore
      const { approval } = yield* waiting()
      assert.deepEqual(yield* store.decisions([approval]), [])
      const asked = [yield* reject, yield* approve, yield* reject, yield* approve]
      const given = yield* Effect.forEach(asked, (decision) => store.decide(approval, decision), {
        concurrency: "unbounded"
      })
      const [standing] = given
      assert(asked.some((decision) => decision.by === standing?.by))
      assert.deepEqual(
        given,
        asked.map(() => standing)
      )
      const other = yield* waiting()
      assert.deepEqual(yield* store.decisions([other.approval, approval]), [
        { task_id: approval.task_id, decision: standing, tool_digest: null }
      ])
    })
  },
  {
    title: "decides about nothing that is not the owner's, or that was never requested",
    test: Effect.gen(function* () {
      const store = yield* ApprovalStore
      const { approval, held } = yield* waiting()
      const decision = yield* approve
      const fail = (id: typeof approval, owner?: typeof decision.by) =>
        Given.failureOf(store.decide(id, decision, owner))
      assert((yield* fail(approval, yield* Given.newOwner)) instanceof NotFound)
      assert((yield* fail({ ...approval, task_id: yield* Given.newTask })) instanceof NotFound)
      const other = yield* waiting()
      assert((yield* fail({ ...approval, plan_id: other.approval.plan_id })) instanceof NotFound)
      assert.deepEqual(yield* store.decisions([approval]), [])
      assert.deepEqual(yield* store.decide(approval, decision, held.plan.caller), decision)
    })
  },
  {
    title: "closes an approval with its plan, and keeps the decision that was made before",
    test: Effect.gen(function* () {
      const store = yield* ApprovalStore
      const { approval, held } = yield* waiting()
      const decided = yield* Given.newTask
      const earlier = { ...approval, task_id: decided }
      yield* Given.write(held, [requested(decided)], [Given.row(3, "approval.requested")])
      const decision = yield* reject
      yield* store.decide(earlier, decision)
      yield* Given.settle(held)
      assert.deepEqual((yield* store.pending(held.plan.caller, page)).items, [])
      assert((yield* Given.failureOf(store.decide(approval, decision))) instanceof ApprovalConflict)
      assert.deepEqual(yield* store.decide(earlier, yield* approve), decision)
    })
  },
  {
    title: "requests an approval once, though its commit is written again, and never from behind a lost lease",
    test: Effect.gen(function* () {
      const approvals = yield* ApprovalStore
      const plans = yield* PlanStore
      const held = yield* Given.createHeld()
      const commit = Given.commitOf(held, [requested(yield* Given.newTask)], [Given.row(2, "approval.requested")])
      assert.deepEqual(yield* plans.commit([commit]), new Set())
      assert.deepEqual(yield* plans.commit([commit]), new Set())
      yield* Given.abandon
      yield* Given.takeOver(held, yield* Given.newReplica)
      const late = Given.commitOf(held, [requested(yield* Given.newTask)], [Given.row(3, "approval.requested")])
      assert.deepEqual(yield* plans.commit([late]), new Set([held.plan.plan_id]))
      assert.equal((yield* approvals.pending(held.plan.caller, page)).items.length, 1)
    })
  },
  {
    title: "forgets the approvals of a session that is deleted",
    test: Effect.gen(function* () {
      const { approval, held } = yield* waiting()
      yield* Given.settle(held)
      yield* (yield* SessionStore).delete(held.session_id)
      const store = yield* ApprovalStore
      assert((yield* Given.failureOf(store.decide(approval, yield* approve))) instanceof NotFound)
    })
  }
]
