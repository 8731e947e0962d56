import { anonymous } from "@bowline/domain/caller/CallerName"
import type { NewEntry } from "@bowline/domain/plan/Inbox"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { ApprovalConflict, EntryRefused, InvalidRequest } from "@bowline/domain/plan/Refusal"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { type Asked, results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { type Duration, Effect, Fiber, Layer, type Schema } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { Inbox } from "../../src/plan/Inbox.ts"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import type { PlanCommit } from "../../src/store/PlanStore.ts"
import { inPlace, SchemaChecks } from "../../src/tool/SchemaChecks.ts"
import { askBob, bob, names } from "../plan/Bob.ts"
import { type Mortal, mortal, replayed } from "../plan/Mortal.ts"

const me = { caller: anonymous, isAdmin: false }
const checks = Layer.succeed(SchemaChecks, inPlace)
const body = { question: "?", agents: [bob], preferences: { on_disconnect: "continue", on_input_required: "wait" } }
const script = [askBob, [say("ok")]]

/** A peer whose task asks a few questions, wherever it is asked from. It takes a message once, however often it comes, and `late`. */
const asking = (questions: number, late: Duration.Input = 0) => {
  const got: Array<{ readonly id: string; readonly content: Schema.Json }> = []
  const sent: Array<string> = []
  let begun = 0
  let cancelled = 0
  const call: PeerClient["Service"]["call"] = ({ answer, isHandedOver, resumes }, onEvent) =>
    Effect.gen(function* () {
      if (resumes === undefined) begun++
      yield* onEvent({ _tag: "Accepted", remoteTaskId: "remote-1", remoteContextId: null })
      yield* Effect.sleep("100 millis")
      while (got.length < questions) {
        const round = got.length + 1
        const given = yield* (
          answer?.({ mark: `q${round}`, message: `Question ${round}`, data: { round } }) ?? Effect.undefined
        )
        if (given === "expired") return { state: "timed-out", content: "", verified: "unknown" } as const
        if (given === undefined) {
          return { state: "input-required", content: `Question ${round}`, verified: "unknown" } as const
        }
        const { content, messageId: id } = given
        sent.push(id)
        yield* Effect.sleep(late)
        if (!got.some((message) => message.id === id)) got.push({ id, content })
        // What the peer has got takes a moment to be answered.
        yield* Effect.sleep("1 second")
      }
      return { state: "completed", content: "Booked", verified: "unknown" } as const
    }).pipe(
      Effect.onInterrupt(() =>
        Effect.sync(() => {
          if (isHandedOver?.() !== true) cancelled++
        })
      )
    )
  return { got, sent, peers: { call }, begun: () => begun, cancelled: () => cancelled }
}

const answerOf = (task_id: TaskId, rest: object): NewEntry => ({ type: "answer", task_id, ...rest })

const tell = Effect.fnUntraced(function* (plan: PlanId, entry: NewEntry) {
  return yield* (yield* Inbox).accept(me, plan, entry)
})

const waiting = Effect.flatMap(Inbox, (inbox) =>
  Effect.map(inbox.waiting(anonymous, { kind: "answer" }, { limit: 10 }), ({ items }) => items)
)

const ask = Effect.fnUntraced(function* (given: object = body) {
  const { frames, plan_id } = yield* post(given)
  const reader = yield* Effect.forkChild(readAll(frames))
  yield* pass("1 second")
  const [wait] = yield* waiting
  return { plan_id, reader, wait }
})

const fieldsOf = (error: unknown) => (error instanceof InvalidRequest ? error.issues.map(({ path }) => path[0]) : [])
const codeOf = (error: unknown) => (error instanceof EntryRefused ? error.code : undefined)

describe("a peer that asks", () => {
  const remote = asking(2)
  it.effect("waits for the answer for as long as somebody takes, in the same call, and may ask again", () =>
    Effect.gen(function* () {
      const { plan_id, reader, wait } = yield* ask()
      const { agent, data, message, task_id, tool, url } = wait ?? assert.fail()
      assert.deepStrictEqual([tool, agent, message, data, url], ["bob_ask", "bob", "Question 1", { round: 1 }, null])
      yield* pass("20 minutes", "1 minute")
      yield* tell(plan_id, answerOf(task_id, { text: "One" }))
      yield* pass("2 seconds")
      const again = yield* tell(plan_id, answerOf(task_id, { round: 2, data: { two: 2 } }))
      assert.deepStrictEqual(yield* tell(plan_id, answerOf(task_id, { data: { two: 2 } })), again)
      const late = yield* Effect.flip(tell(plan_id, answerOf(task_id, { round: 1, text: "Another" })))
      assert.strictEqual(codeOf(late), "task_settled")
      yield* pass("2 seconds")
      const events = yield* Fiber.join(reader)
      assert.deepStrictEqual(
        all(events, "waiting").map(({ kind, message, round }) => [kind, round, message]),
        [
          ["answer", 1, "Question 1"],
          ["answer", 2, "Question 2"]
        ]
      )
      assert.deepInclude(single(events, "task.finished"), { task_id, state: "completed" })
      assert.deepStrictEqual(
        remote.got.map(({ content }) => content),
        ["One", { two: 2 }]
      )
      assert.strictEqual(`entry_${remote.got[1]?.id}`, again.entry_id)
      assert.deepStrictEqual([remote.begun(), remote.cancelled()], [1, 0])
    }).pipe(Effect.provide(layer({ script, peers: remote.peers }).pipe(Layer.provide(checks))), Effect.scoped)
  )

  it.effect("names every field of a wrong answer, and waits on", () =>
    Effect.gen(function* () {
      const { plan_id, reader, wait } = yield* ask()
      const task_id = wait?.task_id ?? assert.fail()
      const refused = (rest: object) => Effect.map(Effect.flip(tell(plan_id, answerOf(task_id, rest))), fieldsOf)
      assert.deepStrictEqual(yield* refused({}), ["text"])
      assert.deepStrictEqual(yield* refused({ action: "accept" }), ["action", "text"])
      assert.deepStrictEqual(yield* refused({ action: "accept", text: "a", data: 1 }), ["action", "data"])
      assert.lengthOf(yield* waiting, 1)
      const { items } = yield* (yield* Inbox).list(me, plan_id, { limit: 10 })
      assert.deepStrictEqual(items, [])
      yield* tell(plan_id, answerOf(task_id, { text: "One" }))
      yield* pass("2 seconds")
      yield* Fiber.join(reader)
    }).pipe(Effect.provide(layer({ script, peers: asking(1).peers }).pipe(Layer.provide(checks))), Effect.scoped)
  )

  it.effect("is told no answer where nobody gives one in time: the call has timed out, and the task is cancelled", () =>
    Effect.gen(function* () {
      const { reader } = yield* ask({
        ...body,
        preferences: { ...body.preferences, wait_timeout_ms: 60_000 }
      })
      yield* pass("2 minutes", "1 second")
      const events = yield* Fiber.join(reader)
      assert.deepInclude(single(events, "task.finished"), {
        state: "timed-out",
        error: { code: "wait_expired", message: "Nobody answered in time" }
      })
    }).pipe(Effect.provide(layer({ script, peers: asking(1).peers }).pipe(Layer.provide(checks))), Effect.scoped)
  )

  it.effect("is handed back where the request does not say wait", () =>
    Effect.gen(function* () {
      const { reader } = yield* ask({ ...body, preferences: { on_disconnect: "continue" } })
      const events = yield* Fiber.join(reader)
      assert.deepInclude(single(events, "task.finished"), { state: "input-required" })
      assert.deepStrictEqual(all(events, "waiting"), [])
    }).pipe(Effect.provide(layer({ script, peers: asking(20).peers }).pipe(Layer.provide(checks))), Effect.scoped)
  )

  it.effect("is handed back at its eleventh question", () =>
    Effect.gen(function* () {
      const { plan_id, reader, wait } = yield* ask()
      for (let round = 1; round <= 10; round++) {
        yield* tell(plan_id, answerOf(wait?.task_id ?? assert.fail(), { round, text: `${round}` }))
        yield* pass("2 seconds")
      }
      const events = yield* Fiber.join(reader)
      assert.lengthOf(all(events, "waiting"), 10)
      assert.deepInclude(single(events, "task.finished"), { state: "input-required" })
    }).pipe(Effect.provide(layer({ script, peers: asking(20).peers }).pipe(Layer.provide(checks))), Effect.scoped)
  )
})

const waitsOf = (process: Mortal) =>
  Effect.map(process.inbox.waiting(anonymous, {}, { limit: 10 }), ({ items }) => items)

describe("a call whose process dies behind the sending of an answer", () => {
  it.effect("sends it once more with the same id where the peer still shows the question", () =>
    Effect.gen(function* () {
      const remote = asking(1, "50 seconds")
      const first = yield* mortal({ script, peers: remote.peers })
      const second = yield* mortal({ script: () => [say("ok")], peers: remote.peers })
      const { plan_id } = yield* first.on(post(body))
      yield* pass("1 second")
      const [wait] = yield* waitsOf(first)
      const entry = answerOf(wait?.task_id ?? assert.fail(), { text: "One" })
      const { entry_id } = yield* first.inbox.accept(me, plan_id, entry)
      yield* pass("1 second")
      first.kill()
      yield* pass("40 seconds", "1 second")
      const events = yield* replayed(second, plan_id, "90 seconds")
      assert.deepStrictEqual(
        remote.sent.map((id) => `entry_${id}`),
        [entry_id, entry_id]
      )
      assert.deepStrictEqual(remote.got.length, 1)
      assert.lengthOf(all(events, "waiting"), 1)
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, checks)))
  )
})

const writes = ['"event":"waiting"', '"state":"taken"', '"round":2', '"TaskFinished"']
const deaths = writes.flatMap((write) => [[write, "before"] as const, [write, "behind"] as const])

describe.each(deaths)("a call whose peer asks, and whose process dies of the write of %s, %s it", (write, when) => {
  it.effect("asks each question once, and sends each answer as one message", () =>
    Effect.gen(function* () {
      const remote = asking(2)
      const holds = (batch: ReadonlyArray<PlanCommit>) => JSON.stringify(batch).includes(write)
      const first = yield* mortal({ script, peers: remote.peers, dies: (batch) => (holds(batch) ? when : undefined) })
      const second = yield* mortal({ script: () => [say("ok")], peers: remote.peers })
      const { plan_id } = yield* first.on(post(body))
      const answer = Effect.fnUntraced(function* (process: Mortal) {
        const [wait] = yield* waitsOf(process)
        if (wait === undefined) return
        yield* process.inbox.accept(me, plan_id, answerOf(wait.task_id, { text: `to ${wait.message}` }))
      })
      yield* pass("1 second")
      yield* answer(first)
      yield* pass("2 seconds")
      yield* answer(first)
      yield* pass("40 seconds", "1 second")
      for (let n = 0; n < 2; n++) {
        yield* answer(second)
        yield* pass("3 seconds")
      }
      const events = yield* replayed(second, plan_id)
      assert.deepStrictEqual(
        remote.got.map(({ content }) => content),
        ["to Question 1", "to Question 2"]
      )
      assert.deepStrictEqual([remote.begun(), remote.cancelled()], [1, 0])
      assert.deepStrictEqual(
        all(events, "waiting").map(({ round }) => round),
        [1, 2]
      )
      const { items } = yield* second.inbox.list(me, plan_id, { limit: 10 })
      assert.deepStrictEqual(
        items.map(({ entry_id, state, type }) => [entry_id.slice(6), type, state]),
        remote.got.map(({ id }) => [id, "answer", "taken"])
      )
      assert.deepInclude(single(events, "task.finished"), { state: "completed" })
      assert.deepStrictEqual(names(events).slice(-2), ["final", "done"])
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, checks)))
  )
})

describe("a call that was approved with other arguments, and whose peer asks before its process dies", () => {
  it.effect("keeps its arguments and what was remembered in the next process, and its decision stands", () =>
    Effect.gen(function* () {
      const remote = asking(1)
      const asked: Array<Schema.Json> = []
      const call: PeerClient["Service"]["call"] = (given, onEvent) => {
        asked.push(given.input)
        return remote.peers.call(given, onEvent)
      }
      const first = yield* mortal({ script, peers: { call } })
      const requests: Array<Asked> = []
      const again = (request: Asked) => {
        requests.push(request)
        return requests.length === 1 ? [callTool("bob_ask", { input: "again" })] : [say("ok")]
      }
      const second = yield* mortal({ script: again, peers: { call } })
      const { plan_id } = yield* first.on(post({ ...body, preferences: { ...body.preferences, approval: "always" } }))
      yield* pass("1 second")
      const [approval] = yield* waitsOf(first)
      const task_id = approval?.task_id ?? assert.fail()
      const input = { input: "changed" }
      const decided = { type: "decision", task_id, decision: "approve" } as const
      const { entry_id } = yield* first.inbox.accept(me, plan_id, { ...decided, input, remember: "plan" })
      yield* pass("1 second")
      first.kill()
      yield* pass("40 seconds", "1 second")
      const [wait] = yield* waitsOf(second)
      assert.strictEqual(wait?.kind, "answer")
      yield* second.inbox.accept(me, plan_id, answerOf(task_id, { text: "One" }))
      const events = yield* replayed(second, plan_id)
      // The first process, the next one, and the same once more: its plan was parked meanwhile.
      assert.deepStrictEqual(asked, [input, input, input, { input: "again" }])
      const notes = requests.map((request) => results(request).map((result) => result.includes("has changed the arg")))
      assert.deepStrictEqual(notes, [[true], [true, false]])
      assert.lengthOf(all(events, "approval.requested"), 1)
      assert.deepStrictEqual(yield* second.inbox.accept(me, plan_id, { ...decided, input }), {
        entry_id,
        plan_id,
        moved: false
      })
      const other = second.inbox.decide(me, { plan_id, task_id }, { decision: "reject" })
      const conflict = yield* Effect.flip(other)
      assert.deepStrictEqual(conflict instanceof ApprovalConflict && conflict.standing, {
        decision: "approve",
        by: anonymous
      })
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, checks)))
  )
})
