import { MessageId } from "@bowline/domain/session/Message"
import type { TaskId, TaskState } from "@bowline/domain/tool/TaskState"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { type PlanChange, PlanStore, questionId } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const ask = { agent: "bob", endpoint: "http://bob.test/", skill: "ask" }

const seqs = Effect.fnUntraced(function* ({ plan, session_id }: Given.Stored) {
  const sessions = yield* SessionStore
  const { items } = yield* sessions.messages(session_id, { limit: 100 })
  const history = yield* sessions.history(session_id)
  const { message_count } = yield* sessions.find(plan.caller, session_id)
  assert.equal(message_count, items.length)
  return { messages: items.map(({ seq }) => seq), inPrompt: history.map(({ seq }) => seq) }
})

/** The id of the message with this number. */
const idOf = Effect.fnUntraced(function* ({ session_id }: Given.Stored, seq: number) {
  const { items } = yield* (yield* SessionStore).messages(session_id, { limit: 100 })
  const message_id = items.find((message) => message.seq === seq)?.message_id
  assert(message_id !== undefined)
  return message_id
})

/** A plan that holds its session, in which there are so many messages. */
const heldWith = Effect.fnUntraced(function* (count: number, given: Parameters<typeof Given.createHeld>[0] = {}) {
  const held = yield* Given.createHeld(given)
  for (let seq = 1; seq <= count; seq++) yield* Given.write(held, [yield* Given.appended(String(seq))])
  return held
})

/** A message with a call, and what became of the call's remote task. */
const call = Effect.fnUntraced(function* (
  stored: Given.Stored,
  state: TaskState,
  remote_task_id: string,
  called: typeof ask = ask
) {
  const task_id: TaskId = yield* Given.newTask
  const uuid = yield* UuidGenerator
  const asked: PlanChange = {
    _tag: "MessageAppended",
    message: {
      message_id: MessageId.make(`msg_${uuid()}`),
      role: "assistant",
      parts: [{ type: "tool_call", task_id, tool: "bob_ask", input: { question: "\u0000" } }]
    },
    at: Given.at
  }
  yield* Given.write(stored, [asked, Given.started(task_id, "bob_ask", called)])
  yield* Given.write(stored, [
    { _tag: "TaskAccepted", task_id, remote_task_id, remote_context_id: null },
    { _tag: "TaskFinished", task_id, state, result: "", error: null, at: Given.later }
  ])
})

const revert = Effect.fnUntraced(function* (
  { session_id, fence }: Given.Stored & { readonly fence: number },
  to: MessageId
) {
  return yield* (yield* SessionStore).revert(session_id, fence, to)
})

export const revertCases: ReadonlyArray<StoreCase> = [
  {
    title: "drops what came behind a message, and gives none of its numbers again",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      const held = yield* heldWith(4)
      const [second, third] = [yield* idOf(held, 2), yield* idOf(held, 3)]
      assert.deepEqual(yield* revert(held, second), [])
      assert.deepEqual(yield* seqs(held), { messages: [1, 2], inPrompt: [1, 2] })
      assert.equal((yield* sessions.message(held.session_id, second)).seq, 2)
      assert.equal((yield* Given.failureOf(sessions.message(held.session_id, third)))?._tag, "NotFound")
      assert.equal((yield* Given.failureOf(revert(held, third)))?._tag, "NotFound")
      const whole = yield* sessions.messages(held.session_id, { limit: 3, withReverted: true })
      assert.deepEqual([whole.items.map(({ seq }) => seq), whole.next], [[1, 2, 3], 3])
      const rest = yield* sessions.messages(held.session_id, { limit: 3, cursor: 3, withReverted: true })
      assert.deepEqual(
        rest.items.map(({ seq }) => seq),
        [4]
      )
      yield* Given.write(held, [yield* Given.appended("5")])
      assert.deepEqual(yield* seqs(held), { messages: [1, 2, 5], inPrompt: [1, 2, 5] })
      yield* revert(held, yield* idOf(held, 5))
      assert.deepEqual(yield* seqs(held), { messages: [1, 2, 5], inPrompt: [1, 2, 5] })
    })
  },
  {
    title: "drops nothing for an old fence, or behind a message of another session",
    test: Effect.gen(function* () {
      const held = yield* heldWith(2)
      const other = yield* heldWith(1)
      const first = yield* idOf(held, 1)
      assert.equal((yield* Given.failureOf(revert({ ...held, fence: held.fence - 1 }, first)))?._tag, "LeaseLost")
      assert.equal((yield* Given.failureOf(revert(other, first)))?._tag, "NotFound")
      assert.deepEqual((yield* seqs(held)).messages, [1, 2])
    })
  },
  {
    title: "keeps a summary that covers no more than what is left, and drops one that does, but not what callers said",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      const held = yield* heldWith(4, { prior_summary: "before" })
      const { session_id } = held
      const compaction = {
        id: "c",
        summary: "one and two",
        through: yield* idOf(held, 2),
        covered_seq: 0,
        prior_seq: 1
      }
      yield* sessions.compact(session_id, held.fence, compaction)
      yield* revert(held, yield* idOf(held, 2))
      assert.deepEqual(yield* seqs(held), { messages: [1, 2], inPrompt: [] })
      assert.equal((yield* sessions.summary(session_id)).text, "one and two")
      yield* revert(held, yield* idOf(held, 1))
      assert.deepEqual(yield* seqs(held), { messages: [1], inPrompt: [1] })
      assert.equal((yield* sessions.message(session_id, yield* idOf(held, 1))).compacted, false)
      assert.deepEqual(yield* sessions.summary(session_id), {
        text: null,
        covered_seq: 0,
        priors: ["before"],
        prior_seq: 1
      })
    })
  },
  {
    title:
      "gives the remote tasks that the dropped calls have left, and nobody goes on with them, or with what they went on with",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      const held = yield* heldWith(1, { preset: "support" })
      const [search, other] = [
        { ...ask, skill: "search" },
        { ...ask, skill: "other" }
      ]
      yield* call(held, "input-required", "kept")
      yield* call(held, "input-required", "both", search)
      yield* call(held, "auth-required", "1")
      yield* call(held, "completed", "both", search)
      yield* call(held, "completed", "2", other)
      const open = (remote_task_id: string, called = ask) => ({
        ...called,
        remote_task_id,
        remote_context_id: null,
        preset: "support"
      })
      assert.deepEqual(yield* revert(held, yield* idOf(held, 3)), [open("1")])
      assert.deepEqual(yield* sessions.handedBack(held.session_id), [open("kept")])
      assert.deepEqual(yield* revert(held, yield* idOf(held, 1)), [open("kept"), open("both", search)])
      assert.deepEqual(yield* sessions.handedBack(held.session_id), [])
    })
  },
  {
    title:
      "drops the questions of the plans with the same echo as another one is created, and nothing where that is refused",
    test: Effect.gen(function* () {
      const plans = yield* PlanStore
      const owner = yield* Given.newOwner
      const external_session_id = yield* Given.newName
      const told = { message_id: MessageId.make(`msg_${(yield* UuidGenerator)()}`), role: "user" as const }
      const messages = [{ ...told, parts: [{ type: "text" as const, text: "before" }] }]
      const echo = (id: string) => ({ type: "ui", message_id: `\u0000${id}` })
      /** Asks a question, and answers it with a call that its peer has handed back. */
      const ask = Effect.fnUntraced(function* (id: string, given: Parameters<typeof Given.createHeld>[0] = {}) {
        const held = yield* Given.createHeld({ owner, external_session_id, echo: echo(id), ...given })
        const question = { message_id: questionId(held.plan.plan_id), role: "user" as const, parts: [] }
        yield* Given.write(held, [{ _tag: "MessageAppended", message: question, at: Given.at }])
        yield* call(held, "input-required", id)
        yield* Given.write(held, [yield* Given.appended(id)])
        return held
      })
      const first = yield* ask("a", { messages })
      yield* Given.finish(first)
      const last = yield* ask("b")
      const again = Effect.fnUntraced(function* (id: string) {
        const preferences = { ...Given.preferences, on_busy: "reject" as const }
        const given = { owner, external_session_id, preferences, echo: echo(id), replaces: true }
        return yield* plans.create(yield* Given.newPlan(given), 32)
      })
      assert.equal((yield* Given.failureOf(again("a")))?._tag, "SessionBusy")
      assert.equal((yield* seqs(last)).messages.length, 7)
      yield* Given.finish(last)
      assert.deepEqual(
        (yield* again("b")).dropped.map(({ remote_task_id }) => remote_task_id),
        ["b"]
      )
      assert.deepEqual((yield* seqs(last)).messages, [1, 2, 3, 4])
    })
  },
  {
    title:
      "keeps what was told before the first question when that is replaced, and everything where no plan has the echo",
    test: Effect.gen(function* () {
      const plans = yield* PlanStore
      const owner = yield* Given.newOwner
      const external_session_id = yield* Given.newName
      const message_id = MessageId.make(`msg_${(yield* UuidGenerator)()}`)
      const messages = [{ message_id, role: "user" as const, parts: [] }]
      const named = { owner, external_session_id }
      const held = yield* Given.createHeld({ ...named, messages, echo: "a" })
      const question = { message_id: questionId(held.plan.plan_id), role: "user" as const, parts: [] }
      yield* Given.write(held, [{ _tag: "MessageAppended", message: question, at: Given.at }])
      yield* Given.finish(held)
      for (const [echo, left] of [
        ["b", [1, 2]],
        ["a", [1]]
      ] as const) {
        const plan = yield* Given.newPlan({ ...named, echo, replaces: true })
        assert.deepEqual((yield* plans.create(plan, 32)).dropped, [])
        assert.deepEqual((yield* seqs(held)).messages, left)
      }
    })
  }
]
