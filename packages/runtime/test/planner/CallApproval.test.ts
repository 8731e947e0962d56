import { anonymous, CallerName } from "@bowline/domain/caller/CallerName"
import { EntryId } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { ApprovalConflict, NotFound } from "@bowline/domain/plan/Refusal"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, layer, pass, post, seen, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Latch, Stream } from "effect"
import { CredentialPool } from "../../src/asking/CredentialPool.ts"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import { Inbox } from "../../src/plan/Inbox.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { InboxStore } from "../../src/store/InboxStore.ts"
import { bob, names } from "../plan/Bob.ts"

const ann = CallerName.make("ann")
const skills = [{ id: "pay", approval: "always" }, { id: "ask" }, { id: "slow" }]
const pay = (input: string) => callTool("bob_pay", { input })
const say1 = [say("done")]

/** A peer that remembers what it was asked, and answers at once; its slow skill answers when it may. */
const peer = () => {
  const asked: Array<string> = []
  const mayAnswer = Latch.makeUnsafe(false)
  const call: PeerClient["Service"]["call"] = ({ input, skill }) =>
    Effect.gen(function* () {
      asked.push(`${skill.id} ${JSON.stringify(input["input"])}`)
      if (skill.id === "slow") yield* mayAnswer.await
      return { state: "completed" as const, content: "paid", verified: "unknown" as const }
    })
  return { asked, mayAnswer, peers: { call } }
}

/** Asks, reads in the background, and lets the plan come to its wait. */
const ask = Effect.fnUntraced(function* (
  preferences: object = {},
  agents: ReadonlyArray<object> = [{ ...bob, skills }]
) {
  const { frames, plan_id } = yield* post({ question: "?", agents, preferences })
  const events: Array<ReturnType<typeof seen>[number]> = []
  const reader = yield* Effect.forkChild(
    Stream.runForEach(frames, (item) => Effect.sync(() => events.push(...seen([item]))))
  )
  yield* pass("1 second")
  return { plan_id, events, reader }
})

const decide = Effect.fnUntraced(function* (
  plan_id: PlanId,
  task_id: TaskId,
  decision: "approve" | "reject",
  { note, caller = anonymous, isAdmin = false }: { note?: string; caller?: CallerName; isAdmin?: boolean } = {}
) {
  const given = note === undefined ? { decision } : { decision, note }
  return yield* (yield* Plans).decide({ caller, isAdmin }, { plan_id, task_id }, given)
})

const stageOf = Effect.fnUntraced(function* (plan_id: PlanId) {
  return (yield* (yield* Plans).get(anonymous, plan_id)).stage
})

const pending = Effect.flatMap(Plans, (plans) => plans.approvals(anonymous, { limit: 10 }))

const windows = Effect.flatMap(CredentialPool, (pool) =>
  Effect.map(pool.list, (credentials) => credentials.flatMap(({ windows }) => windows))
)

describe("a call that needs an approval", () => {
  it.effect("is made once it is approved, and not before", () => {
    const { asked, peers } = peer()
    return Effect.gen(function* () {
      const { events, plan_id, reader } = yield* ask()
      yield* pass("20 minutes", "1 minute")
      assert.deepStrictEqual(asked, [])
      assert.strictEqual(yield* stageOf(plan_id), "approval")
      const requested = single(events, "approval.requested")
      const { task_id } = requested
      const { session_id } = yield* (yield* Plans).get(anonymous, plan_id)
      const call = { task_id, tool: "bob_pay", agent: "bob", input: { input: "7" } }
      const shown = { ...call, why: "skill", expires_at: "1970-01-02T00:00:00.000Z" } as const
      assert.deepStrictEqual(requested, shown)
      assert.deepStrictEqual((yield* pending).items, [{ ...shown, plan_id, session_id, caller: anonymous }])

      yield* decide(plan_id, task_id, "approve")
      yield* pass("100 millis")
      yield* Fiber.join(reader)
      assert.deepStrictEqual(single(events, "approval.resolved"), { task_id, decision: "approve", by: anonymous })
      assert.deepStrictEqual(names(events.slice(3)), [
        "approval.requested",
        ...Array.from({ length: 120 }, () => "ping"),
        "approval.resolved",
        "task.started",
        "task.artifact",
        "task.finished",
        "step",
        "text.delta",
        "final",
        "done"
      ])
      assert.deepInclude(single(events, "task.finished"), { task_id, state: "completed", duration_ms: 0 })
      assert.deepStrictEqual(asked, ['pay "7"'])
      assert.deepStrictEqual((yield* pending).items, [])
    }).pipe(Effect.provide(layer({ script: [[pay("7")], say1], peers })), Effect.scoped)
  })

  it.effect("is never made where it is rejected, and the model gets the note in the gateway's own words", () => {
    const { asked, peers } = peer()
    return Effect.gen(function* () {
      const { events, plan_id, reader } = yield* ask()
      const { task_id } = single(events, "approval.requested")
      yield* decide(plan_id, task_id, "reject", { note: "Too much: ask first" })
      yield* pass("100 millis")
      yield* Fiber.join(reader)
      assert.deepStrictEqual(asked, [])
      const resolved = single(events, "approval.resolved")
      assert.deepStrictEqual(resolved, { task_id, decision: "reject", note: "Too much: ask first", by: anonymous })
      assert.strictEqual(single(events, "task.started").task_id, task_id)
      const { error, state } = single(events, "task.finished")
      assert.deepStrictEqual([state, error?.code], ["rejected", "rejected"])
      const [, second] = yield* (yield* ScriptedProvider).asked.all
      const [result] = second === undefined ? [] : results(second)
      assert.strictEqual(result, "The call was not made: anonymous rejected it. anonymous says: Too much: ask first")
      assert.strictEqual(single(events, "final").text, "done")
    }).pipe(Effect.provide(layer({ script: [[pay("7")], say1], peers })), Effect.scoped)
  })

  it.effect("is made with the arguments of whoever has approved it, of which the model is told", () => {
    const { asked, peers } = peer()
    return Effect.gen(function* () {
      const { events, plan_id, reader } = yield* ask()
      const { task_id } = single(events, "approval.requested")
      const decision = { type: "decision", task_id, decision: "approve", input: { input: "5" } } as const
      yield* (yield* Inbox).accept({ caller: anonymous, isAdmin: false }, plan_id, decision, undefined)
      yield* pass("100 millis")
      yield* Fiber.join(reader)
      assert.deepStrictEqual(asked, ['pay "5"'])
      assert.deepStrictEqual(single(events, "task.started").input, { input: "5" })
      const [, second] = yield* (yield* ScriptedProvider).asked.all
      const [result = ""] = second === undefined ? [] : results(second)
      assert.match(result, /paid[^]*\nanonymous has changed the arguments to \{"input":"5"\}$/)
    }).pipe(Effect.provide(layer({ script: [[pay("7")], say1], peers })), Effect.scoped)
  })

  it.effect("is rejected when nobody has decided in its time, and nobody can decide any more", () => {
    const { asked, peers } = peer()
    return Effect.gen(function* () {
      const { events, plan_id, reader } = yield* ask({ wait_timeout_ms: 90_000 })
      const { expires_at, task_id } = single(events, "approval.requested")
      assert.strictEqual(expires_at, "1970-01-01T00:01:30.000Z")
      yield* pass("88 seconds", "1 second")
      assert.deepStrictEqual(all(events, "approval.resolved"), [])
      yield* pass("2 seconds", "1 second")
      yield* Fiber.join(reader)
      const expired = { task_id, decision: "reject", note: "expired", by: "nobody" }
      assert.deepStrictEqual<unknown>(single(events, "approval.resolved"), expired)
      assert.strictEqual(single(events, "task.finished").state, "rejected")
      assert.deepStrictEqual(asked, [])
      const [, second] = yield* (yield* ScriptedProvider).asked.all
      const [result] = second === undefined ? [] : results(second)
      assert.strictEqual(result, "The call was not made: nobody has decided about it in time.")
      assert.instanceOf(yield* Effect.flip(decide(plan_id, task_id, "approve")), ApprovalConflict)
    }).pipe(Effect.provide(layer({ script: [[pay("7")], say1], peers })), Effect.scoped)
  })

  it.effect("takes the first decision: the same one again changes nothing, and a different one is refused", () =>
    Effect.gen(function* () {
      const { events, plan_id } = yield* ask()
      const { task_id } = single(events, "approval.requested")
      const others = { caller: ann, isAdmin: false }
      assert.instanceOf(yield* Effect.flip(decide(plan_id, task_id, "approve", others)), NotFound)
      const unknown = TaskId.make("00000000-0000-4000-8000-000000000000")
      assert.instanceOf(yield* Effect.flip(decide(plan_id, unknown, "approve")), NotFound)
      const first = yield* decide(plan_id, task_id, "approve", { note: "Fine", caller: ann, isAdmin: true })
      assert.deepStrictEqual(first, { decision: "approve", note: "Fine", by: ann })
      assert.deepStrictEqual(yield* decide(plan_id, task_id, "approve", { note: "Mine" }), first)
      const conflict = yield* Effect.flip(decide(plan_id, task_id, "reject"))
      assert.instanceOf(conflict, ApprovalConflict)
      assert.strictEqual(conflict.message, "ann has approved the call already")
      yield* pass("100 millis")
      assert.deepStrictEqual(single(events, "approval.resolved"), { task_id, ...first })
      assert.deepStrictEqual(yield* decide(plan_id, task_id, "approve"), first)
    }).pipe(Effect.provide(layer({ script: [[pay("7")], say1], peers: peer().peers })), Effect.scoped)
  )

  it.effect("lets the others of its step run, as many as there are, and hides its stage behind theirs", () => {
    const { asked, mayAnswer, peers } = peer()
    const calls = [...Array.from({ length: 9 }, (_, at) => pay(String(at))), callTool("bob_slow", { input: "x" })]
    return Effect.gen(function* () {
      const { events, plan_id, reader } = yield* ask()
      assert.deepStrictEqual(asked, ['slow "x"'])
      assert.strictEqual(yield* stageOf(plan_id), "tool")
      yield* mayAnswer.open
      yield* pass("100 millis")
      assert.strictEqual(yield* stageOf(plan_id), "approval")
      const requested = all(events, "approval.requested")
      assert.lengthOf(requested, 9)
      for (const [at, { task_id }] of requested.toReversed().entries()) {
        assert.notInclude(names(events), "final")
        yield* decide(plan_id, task_id, at % 2 === 0 ? "approve" : "reject")
        yield* pass("100 millis")
      }
      yield* Fiber.join(reader)
      assert.deepStrictEqual(asked, ['slow "x"', 'pay "8"', 'pay "6"', 'pay "4"', 'pay "2"', 'pay "0"'])
      const [, second] = yield* (yield* ScriptedProvider).asked.all
      const answers = second === undefined ? [] : results(second).map((result) => result.includes("paid"))
      assert.deepStrictEqual(answers, [true, false, true, false, true, false, true, false, true, true])
    }).pipe(Effect.provide(layer({ script: [calls, say1], peers })), Effect.scoped)
  })

  it.effect("is found without a notice, too", () =>
    Effect.gen(function* () {
      const { events, plan_id, reader } = yield* ask()
      const { task_id } = single(events, "approval.requested")
      const entry = { type: "decision", task_id, decision: "approve" } as const
      const entry_id = EntryId.make("entry_00000000-0000-4000-8000-000000000000")
      yield* (yield* InboxStore).accept({ plan_id, entry_id, by: ann, owner: undefined, entry })
      yield* pass("5 seconds")
      yield* Fiber.join(reader)
      assert.strictEqual(single(events, "approval.resolved").by, ann)
    }).pipe(Effect.provide(layer({ script: [[pay("7")], say1], peers: peer().peers })), Effect.scoped)
  )

  it.effect("is any call, or one that the configuration names, by what the request says of all calls", () => {
    const script = () => [callTool("bob_ask", { input: "x" })]
    const why = Effect.fnUntraced(function* (approval: string, config: object = {}) {
      const { events } = yield* Effect.provide(
        ask({ approval, max_steps: 2 }),
        layer({ script, peers: peer().peers, config })
      )
      return all(events, "approval.requested").map(({ why }) => why)
    }, Effect.scoped)
    const isBob = (tool: string) => tool === "bob_ask"
    const isNone = () => false
    const sensitive = { approvals: { isSensitive: isBob, isAlways: isNone } }
    const always = { approvals: { isSensitive: isNone, isAlways: isBob } }
    return Effect.gen(function* () {
      assert.deepStrictEqual(yield* why("sensitive"), [])
      assert.deepStrictEqual(yield* why("always"), ["always"])
      assert.deepStrictEqual(yield* why("sensitive", sensitive), ["sensitive"])
      assert.deepStrictEqual(yield* why("never", sensitive), [])
      assert.deepStrictEqual(yield* why("never", always), ["always"])
    })
  })
})

describe("a plan that ends while it waits for an approval", () => {
  const waiting = { script: [[pay("7")], say1], peers: peer().peers }

  /** The call is closed: it has its result in the history, and nobody can decide about it any more. */
  const checkClosed = Effect.fnUntraced(function* ({ events, plan_id }: Effect.Success<ReturnType<typeof ask>>) {
    assert.deepStrictEqual((yield* pending).items, [])
    const { task_id } = single(events, "approval.requested")
    const conflict = yield* Effect.flip(decide(plan_id, task_id, "approve"))
    assert.strictEqual(conflict.message, "The plan is over: the call no longer waits for a decision")
    assert.deepStrictEqual(all(events, "task.started"), [])
    assert.deepStrictEqual(yield* windows, [])
    const { session_id } = yield* (yield* Plans).get(anonymous, plan_id)
    const last = (yield* (yield* SessionStore).history(session_id)).at(-1)
    const content = "The plan ended before the call was made."
    assert.deepStrictEqual(last?.parts, [{ type: "tool_result", task_id, state: "interrupted", content }])
  })

  it.effect("names the stage at its deadline, and leaves the credential alone", () =>
    Effect.gen(function* () {
      const asked = yield* ask({ timeout_ms: 300_000 })
      yield* pass("5 minutes", "1 second")
      const error = single(asked.events, "error")
      assert.deepInclude(error, { code: "aborted", reason: "deadline", stage: "approval", retryable: true })
      assert.isUndefined(error.data)
      yield* checkClosed(asked)
    }).pipe(Effect.provide(layer(waiting)), Effect.scoped)
  )

  it.effect("names the stage when it is cancelled", () =>
    Effect.gen(function* () {
      const asked = yield* ask()
      const plan = yield* (yield* Plans).cancel(anonymous, asked.plan_id)
      assert.deepInclude(plan.error, { reason: "cancelled", stage: "approval" })
      yield* pass("100 millis")
      yield* checkClosed(asked)
    }).pipe(Effect.provide(layer(waiting)), Effect.scoped)
  )

  it.effect("names the stage when its caller disconnects, and waits on where the caller wants that", () =>
    Effect.gen(function* () {
      const run = Effect.fnUntraced(function* (on_disconnect: string) {
        const asked = yield* Effect.scoped(ask({ on_disconnect }))
        yield* pass("1 minute", "1 second")
        return { ...asked, plan: yield* (yield* Plans).get(anonymous, asked.plan_id) }
      })
      const cancelled = yield* run("cancel")
      assert.deepInclude(cancelled.plan.error, { reason: "disconnect", stage: "approval" })
      yield* checkClosed(cancelled)
      const { events, plan, plan_id } = yield* run("continue")
      assert.deepInclude(plan, { state: "running", stage: "approval" })
      yield* decide(plan_id, single(events, "approval.requested").task_id, "approve")
      yield* pass("1 second")
      assert.strictEqual((yield* (yield* Plans).get(anonymous, plan_id)).state, "completed")
    }).pipe(Effect.provide(layer({ ...waiting, script: [[pay("7")], [pay("8")], say1] })))
  )
})
