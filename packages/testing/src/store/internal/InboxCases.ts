import type { NewEntry } from "@bowline/domain/plan/Inbox"
import { EntryId } from "@bowline/domain/plan/Outcome"
import { EntryRefused, IdempotencyConflict, NotFound } from "@bowline/domain/plan/Refusal"
import { ExternalSessionId } from "@bowline/domain/session/Session"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { type PlanChange, type PlanCommit, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

/** A running plan of which a call waits. */
const waiting = Effect.fnUntraced(function* (
  given?: Parameters<typeof Given.createHeld>[0],
  wait?: Parameters<typeof Given.waitOpened>[1]
) {
  const held = yield* Given.createHeld(given)
  const task_id = yield* Given.newTask
  yield* Given.write(held, [Given.waitOpened(task_id, wait)], [Given.row(2, "approval.requested")])
  return { held, plan_id: held.plan.plan_id, task_id }
})

const approve = (task_id: TaskId): NewEntry => ({ type: "decision", task_id, decision: "approve" })
const reject = (task_id: TaskId): NewEntry => ({
  type: "decision",
  task_id,
  decision: "reject",
  note: "Not on a Friday \u0000"
})
const text = (said: string, rest: { readonly else?: "ask" | "reject" } = {}): NewEntry => ({
  type: "text",
  text: said,
  when: "boundary",
  else: "ask",
  ...rest
})

const say = Effect.fnUntraced(function* (...given: Parameters<typeof Given.accepting>) {
  const accepting = yield* Given.accepting(...given)
  return { accepting, accepted: yield* (yield* InboxStore).accept(accepting) }
})

/** Why an entry is refused. */
const codeOf = Effect.fnUntraced(function* (...given: Parameters<typeof Given.accepting>) {
  const failure = yield* Given.failureOf((yield* InboxStore).accept(yield* Given.accepting(...given)))
  return failure instanceof EntryRefused ? failure.code : failure
})

const changed = (
  entry_id: Extract<PlanChange, { _tag: "EntryChanged" }>["entry_id"],
  rest: Partial<Extract<PlanChange, { _tag: "EntryChanged" }>>
): PlanChange => ({ _tag: "EntryChanged", entry_id, state: "taken", step: null, moved_to: null, ...rest })

const closing = (commit: PlanCommit, seen: number): PlanCommit => ({ ...commit, inbox: { seen, closes: true } })

const page = { limit: 10 }

const tools = (name: string) => [{ name, input_schema: { type: "object" } }]

export const inboxCases: ReadonlyArray<StoreCase> = [
  {
    title: "keep the newest tools of the client that came with an entry, which is the same one without them",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      const { plan_id } = held.plan
      const inboxes = yield* InboxStore
      assert.deepEqual(yield* inboxes.toolsOf(plan_id), [])
      const first = yield* Given.accepting(plan_id, text("one"))
      yield* inboxes.accept({ ...first, tools: tools("pick") })
      yield* inboxes.accept({ ...(yield* Given.accepting(plan_id, text("two"))), tools: tools("paint") })
      const { accepting, accepted } = yield* say(plan_id, text("three"))
      assert.equal(accepted._tag, "Accepted")
      assert.deepEqual(yield* inboxes.toolsOf(plan_id), tools("paint"))
      const [content] = yield* inboxes.read([{ plan_id, seen: -1 }])
      assert.deepEqual([content?.tools, content?.texts.length], [tools("paint"), 3])
      for (const again of [first, accepting]) assert.equal((yield* inboxes.accept(again))._tag, "Known")
    })
  },
  {
    title:
      "shows what waits to its owner until somebody has settled it, the oldest first, and approvals the newest first",
    test: Effect.gen(function* () {
      const store = yield* InboxStore
      const owner = yield* Given.newOwner
      const [first, second] = [yield* waiting({ owner }), yield* waiting({ owner }, { kind: "result", why: null })]
      const newer = yield* Given.newTask
      yield* Given.write(first.held, [Given.waitOpened(newer)], [Given.row(3, "approval.requested")])
      yield* waiting()
      const { items, next } = yield* store.waiting(owner, {}, page)
      assert.equal(next, null)
      const [oldest] = items
      assert(oldest !== undefined)
      assert.deepEqual(oldest, {
        plan_id: first.plan_id,
        session_id: first.held.session_id,
        task_id: first.task_id,
        kind: "approval",
        tool: "rigger_ask",
        agent: oldest.agent,
        input: { question: "\u0000" },
        why: "sensitive",
        message: null,
        data: null,
        url: null,
        since: oldest.since,
        expires_at: Given.farOff,
        caller: owner
      })
      assert.match(oldest.agent ?? "", /^rigger [\0\uFFFD]$/)
      const idsOf = (shown: ReadonlyArray<{ readonly task_id: TaskId }>) => shown.map(({ task_id }) => task_id)
      assert.deepEqual(idsOf(items), [first.task_id, second.task_id, newer])
      const top = yield* store.waiting(owner, {}, { limit: 2 })
      assert(top.next !== null)
      const rest = yield* store.waiting(owner, {}, { limit: 2, cursor: top.next })
      assert.deepEqual(idsOf([...top.items, ...rest.items]), idsOf(items))
      assert.deepEqual(idsOf((yield* store.waiting(owner, { kind: "result" }, page)).items), [second.task_id])
      assert.deepEqual(idsOf((yield* store.waiting(owner, { plan: second.plan_id }, page)).items), [second.task_id])
      assert.deepEqual(idsOf((yield* store.approvals(owner, undefined, page)).items), [newer, first.task_id])
      assert.deepEqual((yield* store.approvals(yield* Given.newOwner, first.plan_id, page)).items, [])
      yield* say(first.plan_id, approve(newer))
      assert.deepEqual(idsOf((yield* store.approvals(owner, first.plan_id, page)).items), [first.task_id])
      yield* Given.settle(first.held)
      assert.deepEqual(idsOf((yield* store.waiting(owner, {}, page)).items), [second.task_id])
    })
  },
  {
    title: "keeps the first entry that settles a call, of several at once one, and knows the same one again",
    test: Effect.gen(function* () {
      const store = yield* InboxStore
      const { plan_id, task_id } = yield* waiting()
      assert.equal(yield* store.decision({ plan_id, task_id }), undefined)
      const entries = [reject(task_id), approve(task_id), reject(task_id), approve(task_id)]
      const asked = yield* Effect.forEach(entries, (entry) => Given.accepting(plan_id, entry))
      const given = yield* Effect.forEach(asked, (accepting) => Effect.result(store.accept(accepting)), {
        concurrency: "unbounded"
      })
      const accepted = given.flatMap((result) => (result._tag === "Success" ? [result.success] : []))
      assert.deepEqual(accepted.map(({ _tag }) => _tag).sort(), ["Accepted", "Known"])
      const ids = new Set(accepted.flatMap((one) => (one._tag === "Completed" ? [] : [one.entry_id])))
      assert.equal(ids.size, 1)
      const refused = given.flatMap((result) => (result._tag === "Failure" ? [result.failure] : []))
      assert(refused.every((error) => error instanceof EntryRefused && error.code === "task_settled"))
      const standing = yield* store.decision({ plan_id, task_id })
      const first = asked.find(({ entry_id }) => ids.has(entry_id))
      assert(first?.entry.type === "decision")
      assert.deepEqual([standing?.decision, standing?.by], [first.entry.decision, first.by])
      const [content] = yield* store.read([{ plan_id, seen: 0 }])
      assert.equal(content?.count, 1)
      assert.deepEqual(content.settlements, [
        {
          task_id,
          round: 1,
          given: { entry_id: first.entry_id, by: first.by, entry: first.entry },
          tool_digest: null
        }
      ])
      assert.deepEqual(yield* store.read([{ plan_id, seen: 1 }]), [])
    })
  },
  {
    title: "takes nothing for a call that never waited so, or of another's plan",
    test: Effect.gen(function* () {
      const { held, plan_id, task_id } = yield* waiting()
      assert((yield* codeOf(plan_id, approve(task_id), yield* Given.newOwner)) instanceof NotFound)
      assert((yield* codeOf(plan_id, approve(yield* Given.newTask))) instanceof NotFound)
      assert((yield* codeOf(plan_id, { type: "result", task_id, content: 1 })) instanceof NotFound)
      assert((yield* codeOf((yield* waiting()).plan_id, approve(task_id))) instanceof NotFound)
      const { accepted } = yield* say(plan_id, approve(task_id), held.plan.caller)
      assert.equal(accepted._tag, "Accepted")
    })
  },
  {
    title: "takes no entry for a call of a plan that is over, and knows what has settled one before",
    test: Effect.gen(function* () {
      const { held, plan_id, task_id } = yield* waiting()
      const decided = yield* Given.newTask
      yield* Given.write(held, [Given.waitOpened(decided)], [Given.row(3, "approval.requested")])
      const { accepting } = yield* say(plan_id, reject(decided))
      yield* Given.settle(held)
      assert.equal(yield* codeOf(plan_id, approve(task_id)), "plan_over")
      assert.equal(yield* codeOf(plan_id, approve(decided)), "task_settled")
      const again = yield* say(plan_id, reject(decided))
      assert.deepEqual(again.accepted, { _tag: "Known", entry_id: accepting.entry_id, moved_to: null })
    })
  },
  {
    title: "accepts the same entry once, and refuses another one with its id",
    test: Effect.gen(function* () {
      const store = yield* InboxStore
      const held = yield* Given.createHeld()
      const { plan_id } = held.plan
      const { accepting } = yield* say(plan_id, text("one \u0000"))
      assert.equal((yield* store.accept(accepting))._tag, "Known")
      const other = { ...accepting, entry: text("two") }
      assert((yield* Given.failureOf(store.accept(other))) instanceof IdempotencyConflict)
      const { items } = yield* store.list(plan_id, held.plan.caller, page)
      assert.deepEqual(
        items.map(({ by, entry_id, state, text, type }) => ({ by, entry_id, state, text, type })),
        [{ by: accepting.by, entry_id: accepting.entry_id, state: "accepted", text: "one \u0000", type: "text" }]
      )
      assert((yield* Given.failureOf(store.list(plan_id, yield* Given.newOwner, page))) instanceof NotFound)
    })
  },
  {
    title:
      "stores a commit that closes a plan only if the plan has read its whole inbox, and says what is left to read of any other",
    test: Effect.gen(function* () {
      const store = yield* InboxStore
      const plans = yield* PlanStore
      const held = yield* Given.createHeld()
      const { plan_id } = held.plan
      const { accepting } = yield* say(plan_id, text("wait"))
      const end = Given.commitOf(held, [Given.settled(), { _tag: "Released" }], [Given.row(3, "done")])
      assert.deepEqual(yield* plans.commit([closing(end, 0)]), new Map([[plan_id, "unread"]]))
      assert.equal((yield* plans.get(held.plan.caller, plan_id)).state, "running")
      const step = { ...Given.commitOf(held, [], [Given.row(2, "step")]), inbox: { seen: 0, closes: false } }
      assert.deepEqual(yield* plans.commit([step]), new Map([[plan_id, "behind"]]))
      const taken = Given.commitOf(
        held,
        [changed(accepting.entry_id, { step: 2 }), yield* Given.appended("wait")],
        [Given.row(3, "inbox.taken")]
      )
      // The answer to the first try was lost, and something came in between.
      assert.deepEqual(yield* plans.commit([closing(taken, 1)]), new Map())
      const later = yield* say(plan_id, text("more"))
      assert.deepEqual(yield* plans.commit([closing(taken, 1)]), new Map([[plan_id, "behind"]]))
      const [content] = yield* store.read([{ plan_id, seen: 1 }])
      assert.deepEqual(
        content?.texts.map(({ entry_id }) => entry_id),
        [later.accepting.entry_id]
      )
      const untaken = changed(later.accepting.entry_id, { state: "untaken" })
      const last = Given.commitOf(held, [untaken, Given.settled()], [Given.row(4, "done")])
      assert.deepEqual(yield* plans.commit([closing(last, 1)]), new Map([[plan_id, "unread"]]))
      assert.deepEqual(yield* plans.commit([closing(last, 2)]), new Map())
      assert.deepEqual(yield* plans.commit([closing(last, 2)]), new Map())
      const { items } = yield* store.list(plan_id, held.plan.caller, page)
      assert.deepEqual(
        items.map(({ state, step }) => ({ state, step })),
        [
          { state: "taken", step: 2 },
          { state: "untaken", step: null }
        ]
      )
      assert.equal((yield* say(plan_id, text("late"))).accepted._tag, "Completed")
      assert.equal(yield* codeOf(plan_id, text("late", { else: "reject" })), "plan_over")
    })
  },
  {
    title: "of an end and an entry at the same instant lets one see the other",
    test: Effect.gen(function* () {
      const store = yield* InboxStore
      const plans = yield* PlanStore
      for (let round = 0; round < 20; round++) {
        const held = yield* Given.createHeld()
        const { plan_id } = held.plan
        const accepting = yield* Given.accepting(plan_id, text("now"))
        const end = closing(Given.commitOf(held, [Given.settled()], [Given.row(2, "done")]), 0)
        const [accepted, committed] = yield* Effect.all([store.accept(accepting), plans.commit([end])], {
          concurrency: "unbounded"
        })
        const isOver = !committed.has(plan_id)
        assert.equal(accepted._tag, isOver ? "Completed" : "Accepted")
      }
    })
  },
  {
    title: "creates the plan that continues one that is over, in the same write, and once",
    test: Effect.gen(function* () {
      const store = yield* InboxStore
      const plans = yield* PlanStore
      const held = yield* Given.createHeld()
      const { plan_id } = held.plan
      const { accepting } = yield* say(plan_id, text("next"))
      const given = yield* Given.newPlan({ owner: held.plan.caller })
      const plan = { ...given, request: { ...given.request, session_id: ExternalSessionId.make(held.session_id) } }
      const changes: ReadonlyArray<PlanChange> = [
        changed(accepting.entry_id, { state: "moved", moved_to: plan.plan_id }),
        Given.settled(),
        { _tag: "Continued", plan: { ...plan, leaseTtl: undefined } },
        { _tag: "Released" }
      ]
      const commit = Given.commitOf(held, changes, [Given.row(2, "done")])
      assert.deepEqual(yield* plans.commit([closing(commit, 0)]), new Map([[plan_id, "unread"]]))
      for (let tried = 0; tried < 2; tried++) assert.deepEqual(yield* plans.commit([closing(commit, 1)]), new Map())
      const next = yield* plans.get(held.plan.caller, plan.plan_id)
      assert.deepEqual([next.state, next.session_id], ["queued", held.session_id])
      assert.equal(yield* store.movesTo(plan.plan_id), 1)
      assert.equal(yield* store.movesTo(plan_id), 0)
      const [entry] = (yield* store.list(plan_id, undefined, page)).items
      assert.deepEqual([entry?.state, entry?.moved_to], ["moved", plan.plan_id])
      assert.equal(yield* store.planOf(accepting.entry_id), plan_id)
      assert.equal(yield* store.planOf(EntryId.make("entry_00000000-0000-4000-8000-000000000000")), undefined)
    })
  },
  {
    title: "takes a text back that was not taken, and no other entry",
    test: Effect.gen(function* () {
      const store = yield* InboxStore
      const { held, plan_id, task_id } = yield* waiting()
      const { accepting } = yield* say(plan_id, text("no"))
      const { entry_id } = accepting
      assert((yield* Given.failureOf(store.withdraw(plan_id, entry_id, yield* Given.newOwner))) instanceof NotFound)
      yield* store.withdraw(plan_id, entry_id, held.plan.caller)
      yield* store.withdraw(plan_id, entry_id, held.plan.caller)
      const [content] = yield* store.read([{ plan_id, seen: 1 }])
      assert.equal(content?.count, 2)
      assert.deepEqual(
        content.texts.map(({ isTold, isWithdrawn }) => ({ isTold, isWithdrawn })),
        [{ isTold: false, isWithdrawn: true }]
      )
      yield* Given.write(held, [changed(entry_id, { state: "withdrawn" })], [Given.row(3, "inbox.moved")])
      assert.deepEqual((yield* store.read([{ plan_id, seen: 1 }]))[0]?.texts, [])
      const decision = yield* say(plan_id, approve(task_id))
      const kept = yield* say(plan_id, text("yes"))
      yield* Given.write(held, [changed(kept.accepting.entry_id, { step: 1 })], [Given.row(4, "inbox.taken")])
      for (const { accepting } of [decision, kept]) {
        const failure = yield* Given.failureOf(store.withdraw(plan_id, accepting.entry_id, undefined))
        assert(failure instanceof EntryRefused && failure.code === "entry_taken")
      }
    })
  },
  {
    title: "keeps at most 100 texts of 400,000 characters that a plan has not taken",
    test: Effect.gen(function* () {
      const many = yield* Given.createHeld()
      for (let said = 0; said < 100; said++) yield* say(many.plan.plan_id, text(`${said}`))
      assert.equal(yield* codeOf(many.plan.plan_id, text("one more")), "inbox_full")
      const long = yield* Given.createHeld()
      for (let said = 0; said < 2; said++) yield* say(long.plan.plan_id, text("x".repeat(200_000)))
      assert.equal(yield* codeOf(long.plan.plan_id, text("y")), "inbox_full")
    })
  },
  {
    title:
      "opens a wait once, though its commit is written again, never from behind a lost lease, and again for the same call",
    test: Effect.gen(function* () {
      const store = yield* InboxStore
      const plans = yield* PlanStore
      const held = yield* Given.createHeld()
      const { caller, plan_id } = held.plan
      const task_id = yield* Given.newTask
      const commit = Given.commitOf(held, [Given.waitOpened(task_id)], [Given.row(2, "approval.requested")])
      assert.deepEqual(yield* plans.commit([commit]), new Map())
      assert.deepEqual(yield* plans.commit([commit]), new Map())
      yield* say(plan_id, approve(task_id))
      assert.deepEqual((yield* store.waiting(caller, {}, page)).items, [])
      yield* Given.write(
        held,
        [Given.waitOpened(task_id, { kind: "result", why: null, schema: { type: "string" }, mark: "id:q1" })],
        [Given.row(3, "waiting")]
      )
      assert.deepEqual(yield* store.find({ plan_id, task_id }, caller), {
        kind: "result",
        round: 1,
        tool: "rigger_ask",
        schema: { type: "string" },
        url: null
      })
      assert.equal((yield* store.waiting(caller, {}, page)).items.length, 1)
      assert.equal((yield* say(plan_id, { type: "result", task_id, content: { a: 1 } })).accepted._tag, "Accepted")
      yield* Given.abandon
      const { abandoned } = yield* Given.takeOver(held, yield* Given.newReplica)
      const { inbox, waits } = abandoned
      assert.equal(inbox.count, 2)
      assert.deepEqual(
        waits.map(({ kind, mark, settlement }) => [kind, mark, settlement?.given?.entry.type]),
        [["result", "id:q1", "result"]]
      )
      const late = Given.commitOf(held, [Given.waitOpened(yield* Given.newTask)], [Given.row(4, "approval.requested")])
      assert.deepEqual(yield* plans.commit([late]), Given.refused(plan_id))
    })
  },
  {
    title: "remembers for a session that a tool is approved",
    test: Effect.gen(function* () {
      const store = yield* InboxStore
      const { held, plan_id, task_id } = yield* waiting()
      assert.equal(yield* store.isRemembered(held.session_id, "rigger_ask"), false)
      yield* say(plan_id, { type: "decision", task_id, decision: "approve", remember: "session" })
      assert.equal(yield* store.isRemembered(held.session_id, "rigger_ask"), true)
      assert.equal(yield* store.isRemembered(held.session_id, "rigger_tell"), false)
    })
  },
  {
    title: "forgets the inbox of a session that is deleted",
    test: Effect.gen(function* () {
      const { held, plan_id, task_id } = yield* waiting()
      yield* say(plan_id, text("gone"))
      yield* Given.settle(held)
      yield* (yield* SessionStore).delete(held.session_id)
      assert((yield* codeOf(plan_id, approve(task_id))) instanceof NotFound)
      assert((yield* codeOf(plan_id, text("gone"))) instanceof NotFound)
    })
  }
]
