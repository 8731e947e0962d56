import { anonymous, CallerName } from "@bowline/domain/caller/CallerName"
import type { NewEntry } from "@bowline/domain/plan/Inbox"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { EntryRefused, NotFound } from "@bowline/domain/plan/Refusal"
import { wait } from "@bowline/testing/http/Move"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { say } from "@bowline/testing/provider/Turn"
import { all, layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Inbox } from "../../src/plan/Inbox.ts"
import { PlanStreams } from "../../src/plan/PlanStreams.ts"
import { idempotency } from "../../src/store/Idempotency.ts"
import { Plans } from "../../src/plan/Plans.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { askBob, bob, names } from "./Bob.ts"
import { mortal, replayed, stays } from "./Mortal.ts"
import type { PeerClient } from "../../src/remote/PeerClient.ts"

const me = { caller: anonymous, isAdmin: false }
const text = (said: string, rest: Partial<Extract<NewEntry, { type: "text" }>> = {}): NewEntry => ({
  type: "text",
  text: said,
  when: "boundary",
  else: "ask",
  ...rest
})

const tell = Effect.fnUntraced(function* (plan: PlanId, entry: NewEntry, key?: string) {
  return yield* (yield* Inbox).accept(me, plan, entry, key)
})

/** Asks, and reads the plan to its end in the background. */
const ask = Effect.fnUntraced(function* (body: object = {}) {
  const { frames, plan_id } = yield* post({ question: "first", ...body })
  return { plan_id, reader: yield* Effect.forkChild(readAll(frames)) }
})

const askedTexts = Effect.fnUntraced(function* (at: number) {
  const asked = yield* (yield* ScriptedProvider).asked.all
  return asked[at]?.messages.map((message) => `${message.role}: ${"text" in message ? message.text : message.content}`)
})

const stateOf = (plan: PlanId) => Effect.flatMap(Plans, (plans) => plans.get(anonymous, plan))
const entriesOf = Effect.fnUntraced(function* (plan: PlanId) {
  return (yield* (yield* Inbox).list(me, plan, { limit: 100 })).items
})

/** A peer whose call takes five seconds. */
const slow: Partial<PeerClient["Service"]> = {
  call: () => Effect.delay(Effect.succeed({ state: "completed", content: "tied", verified: "unknown" }), "5 seconds")
}
describe("a text for a running plan", () => {
  it.effect("is read at the next step, behind the results of the calls, in the order of acceptance, once", () =>
    Effect.gen(function* () {
      const { plan_id, reader } = yield* ask({ agents: [bob] })
      yield* pass("1 second")
      const one = yield* tell(plan_id, text("one"))
      const two = yield* tell(plan_id, text("two"))
      assert.deepStrictEqual([one.plan_id, one.moved], [plan_id, false])
      yield* pass("10 seconds")
      const events = yield* Fiber.join(reader)
      assert.deepStrictEqual(
        all(events, "inbox.accepted").map(({ entry_id, text }) => [entry_id, text]),
        [
          [one.entry_id, "one"],
          [two.entry_id, "two"]
        ]
      )
      assert.deepStrictEqual(
        all(events, "inbox.taken").map(({ entry_id, step }) => [entry_id, step]),
        [
          [one.entry_id, 2],
          [two.entry_id, 2]
        ]
      )
      const seen = names(events)
      assert.isBelow(seen.indexOf("task.finished"), seen.indexOf("inbox.taken"))
      assert.deepStrictEqual((yield* askedTexts(1))?.slice(-2), ["user: one", "user: two"])
      assert.deepStrictEqual(
        (yield* entriesOf(plan_id)).map(({ state, step }) => [state, step]),
        [
          ["taken", 2],
          ["taken", 2]
        ]
      )
    }).pipe(Effect.provide(layer({ script: [askBob, [say("done")]], peers: slow })), Effect.scoped)
  )

  it.effect("keeps a plan going whose model has just answered: the answer stays, and a step follows", () =>
    Effect.gen(function* () {
      const { plan_id, reader } = yield* ask()
      yield* pass("1 second")
      yield* tell(plan_id, text("and then?"))
      yield* pass("10 seconds")
      const events = yield* Fiber.join(reader)
      assert.strictEqual(single(events, "final").text, "second answer")
      assert.strictEqual(single(events, "final").steps, 2)
      assert.lengthOf(all(events, "text.retract"), 0)
      assert.deepStrictEqual((yield* askedTexts(1))?.slice(-2), ["assistant: first answer", "user: and then?"])
    }).pipe(
      Effect.provide(layer({ script: [[wait("3 seconds"), say("first answer")], [say("second answer")]] })),
      Effect.scoped
    )
  )

  it.effect("is asked at once where it says so: what is shown is retracted, and nothing counts as a retry", () =>
    Effect.gen(function* () {
      const { plan_id, reader } = yield* ask()
      yield* pass("1 second")
      yield* tell(plan_id, text("stop that", { when: "now" }))
      yield* pass("1 second")
      const events = yield* Fiber.join(reader)
      assert.deepStrictEqual(all(events, "text.retract"), [{ step: 1, attempt: 1, reason: "steered" }])
      assert.strictEqual(single(events, "final").text, "better")
      assert.strictEqual(single(events, "final").steps, 1)
      assert.lengthOf(all(events, "retry"), 0)
      assert.strictEqual(single(events, "inbox.taken").step, 1)
      assert.strictEqual((yield* stateOf(plan_id)).retries, 0)
      assert.deepStrictEqual((yield* askedTexts(1))?.slice(-1), ["user: stop that"])
    }).pipe(
      Effect.provide(layer({ script: [[say("a long"), wait("1 hour"), say(" story")], [say("better")]] })),
      Effect.scoped
    )
  )

  it.effect("is the next question of the session where no step is left, and the plan says so", () =>
    Effect.gen(function* () {
      const question_parts = [{ type: "text", text: "first" }]
      const { plan_id, reader } = yield* ask({ question_parts, preferences: { max_steps: 1 } })
      yield* pass("1 second")
      const moved = yield* tell(plan_id, text("next one"))
      const dropped = yield* tell(plan_id, text("never mind", { else: "reject" }))
      yield* pass("5 seconds")
      const final = single(yield* Fiber.join(reader), "final")
      assert.strictEqual(final.text, "first answer")
      assert.deepStrictEqual(final.untaken, [dropped.entry_id])
      assert.strictEqual(final.moved?.[0]?.entry_id, moved.entry_id)
      yield* pass("5 seconds")
      const { items } = yield* (yield* Plans).list(anonymous, {}, { limit: 10 })
      assert.deepStrictEqual(
        items.map(({ plan_id, question_preview, state }) => [plan_id, question_preview, state]),
        [
          [final.moved?.[0]?.plan_id, "next one", "completed"],
          [plan_id, "first", "completed"]
        ]
      )
      assert.deepStrictEqual(
        (yield* entriesOf(plan_id)).map(({ moved_to, state }) => [state, moved_to]),
        [
          ["moved", final.moved?.[0]?.plan_id],
          ["untaken", null]
        ]
      )
      assert.deepStrictEqual(yield* askedTexts(1), ["user: first", "assistant: first answer", "user: next one"])
    }).pipe(
      Effect.provide(layer({ script: [[wait("3 seconds"), say("first answer")], [say("second answer")]] })),
      Effect.scoped
    )
  )

  it.effect("is named as untaken by the tenth plan in a row that a text has begun", () =>
    Effect.gen(function* () {
      const { plan_id } = yield* ask({ preferences: { max_steps: 1 } })
      let last = plan_id
      for (let plan = 0; plan <= 10; plan++) {
        yield* pass("1 second")
        const { entry_id } = yield* tell(last, text(`text ${plan}`))
        yield* pass("2 seconds")
        const [entry] = yield* entriesOf(last)
        assert.strictEqual(entry?.entry_id, entry_id)
        assert.strictEqual(entry?.state, plan < 10 ? "moved" : "untaken")
        last = entry?.moved_to ?? last
      }
    }).pipe(
      Effect.provide(layer({ script: Array.from({ length: 11 }, () => [wait("3 seconds"), say("answer")]) })),
      Effect.scoped
    )
  )

  it.effect("is named as untaken by a plan that is cancelled or fails", () =>
    Effect.gen(function* () {
      const { plan_id, reader } = yield* ask()
      yield* pass("1 second")
      const { entry_id } = yield* tell(plan_id, text("too late"))
      yield* (yield* Plans).cancel(anonymous, plan_id)
      assert.deepStrictEqual(single(yield* Fiber.join(reader), "error").untaken, [entry_id])
      assert.deepStrictEqual(
        (yield* entriesOf(plan_id)).map(({ state }) => state),
        ["untaken"]
      )
      const failure = yield* Effect.flip(tell(plan_id, text("later")))
      assert.instanceOf(failure, EntryRefused)
    }).pipe(Effect.provide(layer({ script: [[wait("1 hour"), say("never")]] })), Effect.scoped)
  )

  it.effect("is not taken once it was taken back, and the plan says so", () =>
    Effect.gen(function* () {
      const { plan_id, reader } = yield* ask()
      yield* pass("1 second")
      const { entry_id } = yield* tell(plan_id, text("no"))
      yield* pass("1 second")
      yield* (yield* Inbox).withdraw(me, plan_id, entry_id)
      yield* pass("5 seconds")
      const events = yield* Fiber.join(reader)
      assert.deepStrictEqual(single(events, "inbox.moved"), { entry_id, moved_to: null })
      assert.strictEqual(single(events, "final").text, "first answer")
      assert.strictEqual(single(events, "final").steps, 1)
    }).pipe(Effect.provide(layer({ script: [[wait("4 seconds"), say("first answer")]] })), Effect.scoped)
  )

  it.effect("waits in the queue with its plan for the first step", () =>
    Effect.gen(function* () {
      const first = yield* ask({ session_id: "s" })
      yield* pass("1 second")
      const second = yield* ask({ session_id: "s", question: "second" })
      yield* tell(second.plan_id, text("really"))
      yield* pass("10 seconds")
      yield* Fiber.join(first.reader)
      const events = yield* Fiber.join(second.reader)
      assert.strictEqual(single(events, "inbox.taken").step, 1)
      assert.deepStrictEqual((yield* askedTexts(1))?.slice(-2), ["user: second", "user: really"])
    }).pipe(Effect.provide(layer({ script: [[wait("3 seconds"), say("one")], [say("two")]] })), Effect.scoped)
  )
})

describe("a question that steers", () => {
  const steers = { session_id: "s", preferences: { on_busy: "steer" } }

  it.effect("is said to the plan that runs in its session, and is read from there", () =>
    Effect.gen(function* () {
      const first = yield* ask({ session_id: "s" })
      yield* pass("1 second")
      const second = yield* ask({ ...steers, question: "second" })
      assert.strictEqual(second.plan_id, first.plan_id)
      yield* pass("5 seconds")
      yield* Fiber.join(first.reader)
      const events = yield* Fiber.join(second.reader)
      assert.strictEqual(names(events)[0], "inbox.accepted")
      assert.strictEqual(single(events, "final").text, "two")
      const { items } = yield* (yield* Plans).list(anonymous, {}, { limit: 10 })
      assert.lengthOf(items, 1)
    }).pipe(Effect.provide(layer({ script: [[wait("3 seconds"), say("one")], [say("two")]] })), Effect.scoped)
  )

  it.effect("joins the plan that it has started when it comes again, and says nothing to it", () =>
    Effect.gen(function* () {
      const streams = yield* PlanStreams
      const request = PlanRequest.make({ question: "once", session_id: "s", preferences: { on_busy: "steer" } })
      const asked = { caller: anonymous, request, idempotency: idempotency("key", "once") }
      const first = yield* streams.start(asked)
      yield* pass("1 second")
      const again = yield* streams.start(asked)
      assert.strictEqual(again.plan_id, first.plan_id)
      assert.deepStrictEqual(yield* entriesOf(first.plan_id), [])
    }).pipe(Effect.provide(layer({ script: [[wait("3 seconds"), say("one")]] })), Effect.scoped)
  )

  it.effect("is said once for one key, also when the plan that has heard it is over", () =>
    Effect.gen(function* () {
      const streams = yield* PlanStreams
      yield* ask({ session_id: "s" })
      yield* pass("1 second")
      const request = PlanRequest.make({ question: "second", session_id: "s", preferences: { on_busy: "steer" } })
      const asked = { caller: anonymous, request, idempotency: idempotency("key", "once") }
      const first = yield* streams.start(asked)
      yield* pass("10 seconds")
      const again = yield* streams.start(asked)
      assert.strictEqual(again.plan_id, first.plan_id)
      const events = yield* readAll(again.frames)
      assert.strictEqual(names(events)[0], "inbox.accepted")
      assert.strictEqual(single(events, "final").text, "two")
      assert.lengthOf(yield* entriesOf(first.plan_id), 1)
      const other = { ...asked, request: { ...request, question: "third" } }
      assert.strictEqual((yield* Effect.flip(streams.start(other)))._tag, "IdempotencyConflict")
    }).pipe(Effect.provide(layer({ script: [[wait("3 seconds"), say("one")], [say("two")]] })), Effect.scoped)
  )

  it.effect("is refused where it wants what the plan does not have, and is a plan of its own where none runs", () =>
    Effect.gen(function* () {
      const first = yield* ask(steers)
      yield* pass("1 second")
      const other = { ...steers, agents: [bob], preferences: { on_busy: "steer", max_steps: 3 } }
      const refused = yield* Effect.flip(post({ question: "?", ...other }))
      assert(refused._tag === "InvalidRequest")
      assert.deepStrictEqual(
        refused.issues.map(({ path }) => path),
        [["agents"], ["preferences", "max_steps"]]
      )
      yield* pass("5 seconds")
      assert.strictEqual(single(yield* Fiber.join(first.reader), "final").text, "one")
      const second = yield* ask(steers)
      assert.notStrictEqual(second.plan_id, first.plan_id)
    }).pipe(Effect.provide(layer({ script: [[wait("3 seconds"), say("one")], [say("two")]] })), Effect.scoped)
  )
})

describe("a text for a plan that has completed", () => {
  it.effect("is the next question of its session, once for one key, unless it says otherwise", () =>
    Effect.gen(function* () {
      const { plan_id, reader } = yield* ask({ metadata: { ticket: "7" } })
      yield* pass("1 second")
      yield* Fiber.join(reader)
      const [one, again] = [yield* tell(plan_id, text("more"), "key"), yield* tell(plan_id, text("more"), "key")]
      assert.isTrue(one.moved)
      assert.notStrictEqual(one.plan_id, plan_id)
      assert.deepStrictEqual(again, one)
      yield* pass("2 seconds")
      const next = yield* stateOf(one.plan_id)
      assert.deepStrictEqual([next.question, next.state, next.metadata], ["more", "completed", { ticket: "7" }])
      assert.strictEqual((yield* Effect.flip(tell(plan_id, text("no", { else: "reject" }))))._tag, "EntryRefused")
      assert.deepStrictEqual(
        (yield* entriesOf(plan_id)).map(({ moved_to }) => moved_to),
        [one.plan_id]
      )
    }).pipe(Effect.provide(layer({ script: () => [say("done")] })), Effect.scoped)
  )

  it.effect("is asked of a model, also where that plan made one call alone", () =>
    Effect.gen(function* () {
      const call = { agent: "bob", skill: "ask", input: { input: "hi" } }
      const { plan_id } = yield* ask({ agents: [bob], call })
      yield* pass("6 seconds")
      assert.strictEqual((yield* stateOf(plan_id)).state, "completed")
      const moved = yield* tell(plan_id, text("and now?"))
      yield* pass("2 seconds")
      const next = yield* stateOf(moved.plan_id)
      assert.deepStrictEqual([next.question, next.final?.text, next.tool_calls], ["and now?", "done", 0])
    }).pipe(Effect.provide(layer({ script: () => [say("done")], peers: slow })), Effect.scoped)
  )

  it.effect("is for its caller and for admins only", () =>
    Effect.gen(function* () {
      const { plan_id } = yield* ask()
      yield* pass("1 second")
      const inbox = yield* Inbox
      const other = CallerName.make("other")
      const refused = yield* Effect.flip(inbox.accept({ caller: other, isAdmin: false }, plan_id, text("mine?")))
      assert.instanceOf(refused, NotFound)
      const { moved } = yield* inbox.accept({ caller: other, isAdmin: true }, plan_id, text("mine"))
      assert.isTrue(moved)
    }).pipe(Effect.provide(layer({ script: () => [say("done")] })), Effect.scoped)
  )
})

/** A plan that leaves a text to the next one of its session, where another one waits already. */
const leaveText = Effect.fnUntraced(function* (on_busy: "reject" | "interrupt") {
  const preferences = { ...stays.preferences, max_steps: 1 }
  const first = yield* post({ question: "first", session_id: "s", preferences: { ...preferences, on_busy } })
  yield* pass("1 second")
  const second = yield* post({ question: "second", session_id: "s", preferences })
  return { first: first.plan_id, second: second.plan_id }
})

const nextOf = (plan: PlanId) =>
  Effect.map(stateOf(plan), ({ final, state }) => [state, final?.moved?.[0]?.entry_id, final?.moved?.[0]?.plan_id])

describe("a text that comes too late for a plan that does not wait for its session", () => {
  it.effect("waits behind the plans that wait there already, where that one refuses to wait", () =>
    Effect.gen(function* () {
      const plans = yield* leaveText("reject")
      const { entry_id } = yield* tell(plans.first, text("next one"))
      yield* pass("20 seconds")
      const { items } = yield* (yield* Plans).list(anonymous, {}, { limit: 10 })
      assert.deepStrictEqual(
        items.map(({ question_preview, state }) => [question_preview, state]),
        [
          ["next one", "completed"],
          ["second", "completed"],
          ["first", "completed"]
        ]
      )
      assert.deepStrictEqual(yield* nextOf(plans.first), ["completed", entry_id, items[0]?.plan_id])
    }).pipe(
      Effect.provide(layer({ script: [[wait("3 seconds"), say("one")], [say("two")], [say("three")]] })),
      Effect.scoped
    )
  )

  it.effect("ends none of them, where that one has ended those before it, also when its process dies", () =>
    Effect.gen(function* () {
      const first = yield* mortal({
        script: [
          [wait("3 seconds"), say("one")],
          [wait("1 minute"), say("never")]
        ]
      })
      const second = yield* mortal({ script: [[say("two")], [say("three")]] })
      const plans = yield* first.on(leaveText("interrupt"))
      yield* first.inbox.accept(me, plans.first, text("next one"))
      yield* pass("5 seconds")
      first.kill()
      yield* pass("40 seconds", "1 second")
      const { items } = yield* second.plans.list(anonymous, {}, { limit: 10 })
      assert.deepStrictEqual(
        items.map(({ question_preview, state }) => [question_preview, state]),
        [
          ["next one", "completed"],
          ["second", "completed"],
          ["first", "completed"]
        ]
      )
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )
})

describe("a text for a plan that no process can resume", () => {
  it.effect("is named as untaken, whenever it came", () =>
    Effect.gen(function* () {
      const first = yield* mortal({ script: [[wait("1 minute"), say("never")]] })
      const second = yield* mortal({ script: [], config: { resume: false } })
      const { plan_id } = yield* first.on(post({ question: "?", ...stays }))
      yield* pass("1 second")
      const before = yield* first.inbox.accept(me, plan_id, text("one"))
      yield* pass("1 second")
      first.kill()
      const behind = yield* second.inbox.accept(me, plan_id, text("two"))
      const events = yield* replayed(second, plan_id)
      const { code, untaken } = single(events, "error")
      assert.deepStrictEqual([code, untaken], ["interrupted", [before.entry_id, behind.entry_id]])
      const { items } = yield* second.inbox.list(me, plan_id, { limit: 10 })
      assert.deepStrictEqual(
        items.map(({ state }) => state),
        ["untaken", "untaken"]
      )
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )
})
