import { anonymous } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { ApprovalConflict } from "@bowline/domain/plan/Refusal"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, pass, post, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import type { PlanCommit } from "../../src/store/PlanStore.ts"
import { bob, names } from "./Bob.ts"
import { askAndKill, hi, type Mortal, mortal, peer, replayed, stays } from "./Mortal.ts"

const agents = [{ ...bob, skills: [{ id: "pay", approval: "always" }, { id: "ask" }] }]
const asksBoth = [callTool("bob_pay", { input: "7" }), callTool("bob_ask", { input: "hi" })]
const says = { script: [[say("ok")]] }

const decide = (process: Mortal, plan_id: PlanId, task_id: TaskId, decision: "approve" | "reject" = "approve") =>
  process.plans.decide({ caller: anonymous, isAdmin: false }, { plan_id, task_id }, { decision })

const waiting = (process: Mortal) => Effect.map(process.plans.approvals(anonymous, { limit: 10 }), ({ items }) => items)

/** A plan that has asked for an approval, of a process that is dead. */
const orphan = Effect.fnUntraced(function* (first: Mortal) {
  const { plan_id } = yield* askAndKill(first, { agents })
  const [approval] = yield* waiting(first)
  assert.isDefined(approval)
  return { plan_id, task_id: approval?.task_id ?? assert.fail() }
})

/** Each event of an approval and of its task is there once, in order. */
const checkOnce = (events: Effect.Success<ReturnType<typeof replayed>>, task_id: TaskId) => {
  const own = events.flatMap((event) =>
    typeof event !== "string" && "task_id" in event.data && event.data.task_id === task_id ? [event.event] : []
  )
  assert.deepStrictEqual(
    own.filter((name) => name !== "task.progress" && name !== "task.artifact"),
    ["approval.requested", "approval.resolved", "task.started", "task.finished"]
  )
  assert.deepStrictEqual(names(events).slice(-2), ["final", "done"])
  assert.notInclude(names(events), "text.retract")
}

describe("a call that waits for an approval when its process dies", () => {
  it.effect("waits on in the next process, which asks for nothing again", () => {
    const [before, behind] = [peer(), peer()]
    return Effect.gen(function* () {
      const first = yield* mortal({ script: [asksBoth], peers: before.peers })
      const second = yield* mortal({ ...says, peers: behind.peers })
      const { plan_id, task_id } = yield* orphan(first)
      yield* pass("40 seconds", "1 second")
      assert.deepInclude(yield* second.plans.get(anonymous, plan_id), { state: "waiting", stage: "approval" })
      assert.lengthOf(yield* waiting(second), 1)
      yield* decide(second, plan_id, task_id)
      const events = yield* replayed(second, plan_id)
      checkOnce(events, task_id)
      assert.deepStrictEqual(
        [before.calls, behind.calls].map((calls) => calls.map(({ skill }) => skill.id)),
        [["ask"], ["pay"]]
      )
      assert.deepInclude(single(events, "final"), { text: "ok", steps: 2, tool_calls: 2 })
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("gets the decision that was made while nobody ran its plan", () => {
    const behind = peer()
    return Effect.gen(function* () {
      const first = yield* mortal({ script: [asksBoth], peers: peer().peers })
      const { plan_id, task_id } = yield* orphan(first)
      const second = yield* mortal({ ...says, peers: behind.peers })
      yield* decide(second, plan_id, task_id, "reject")
      const events = yield* replayed(second, plan_id)
      checkOnce(events, task_id)
      assert.include(
        all(events, "task.finished").map(({ state }) => state),
        "rejected"
      )
      assert.lengthOf(behind.calls, 0)
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("is made though another call of its step was refused, since the plan could make no more", () => {
    const behind = peer()
    return Effect.gen(function* () {
      const script = [
        [...asksBoth.slice(0, 1), callTool("bob_pay", { input: "8" }), callTool("bob_ask", { input: "hi" })]
      ]
      const first = yield* mortal({ script, peers: peer().peers })
      const preferences = { ...stays.preferences, max_tool_calls: 2 }
      const { plan_id } = yield* askAndKill(first, { agents, preferences })
      const second = yield* mortal({ ...says, peers: behind.peers })
      for (const { task_id } of yield* waiting(second)) yield* decide(second, plan_id, task_id)
      const events = yield* replayed(second, plan_id)
      assert.sameMembers(
        all(events, "task.finished").map(({ state }) => state),
        ["rejected", "completed", "completed"]
      )
      assert.lengthOf(behind.calls, 2)
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("keeps a decision that its process still told, and is made once", () => {
    const [before, behind] = [peer(), peer()]
    const tells = (batch: ReadonlyArray<PlanCommit>) =>
      batch.some(({ events }) => events.some(({ event }) => event === "approval.resolved"))
    return Effect.gen(function* () {
      for (const when of ["before", "behind"] as const) {
        const first = yield* mortal({
          script: [asksBoth],
          peers: before.peers,
          dies: (batch) => (tells(batch) ? when : undefined)
        })
        const second = yield* mortal({ ...says, peers: behind.peers })
        const { plan_id } = yield* first.on(post({ question: "?", agents, ...stays }))
        yield* pass("1 second")
        const [approval] = yield* waiting(first)
        const task_id = approval?.task_id ?? assert.fail()
        const deciding = yield* Effect.forkChild(decide(first, plan_id, task_id))
        yield* Fiber.join(deciding)
        const events = yield* replayed(second, plan_id)
        checkOnce(events, task_id)
        assert.deepStrictEqual(single(events, "approval.resolved").decision, "approve")
        assert.lengthOf(
          [...before.calls, ...behind.calls].filter(({ taskId }) => taskId === task_id),
          1
        )
      }
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("has one result where it is rejected, whichever write its process dies of", () => {
    const holds = (text: string) => (batch: ReadonlyArray<PlanCommit>) => JSON.stringify(batch).includes(text)
    const writes = ["approval.resolved", '"rejected it', '"Settled"']
    return Effect.gen(function* () {
      for (const [index, when] of (["before", "behind"] as const).entries()) {
        for (const write of writes) {
          const session = `${write}-${index}`
          const script = [asksBoth.slice(0, 1), [say("ok")]]
          const first = yield* mortal({
            script,
            dies: (batch) => (holds(write)(batch) ? when : undefined)
          })
          const second = yield* mortal({ script: [[say("ok")]] })
          const { plan_id, session_id } = yield* first.on(
            post({ question: "?", session_id: session, agents, ...stays })
          )
          yield* pass("1 second")
          const [approval] = yield* waiting(first)
          yield* decide(first, plan_id, approval?.task_id ?? assert.fail(), "reject")
          yield* replayed(second, plan_id)
          const history = yield* (yield* SessionStore).history(session_id)
          const results = history.flatMap(({ parts }) => parts.filter(({ type }) => type === "tool_result"))
          assert.deepStrictEqual(
            results.map((part) => "state" in part && part.state),
            ["rejected"],
            `${write} ${when}`
          )
        }
      }
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("is known to be unmade where no process can resume its plan, which has no text twice", () =>
    Effect.gen(function* () {
      const first = yield* mortal({ script: [[say("Paying. "), ...asksBoth.slice(0, 1)]] })
      const second = yield* mortal({ ...says, config: { resume: false } })
      const { plan_id, session_id } = yield* askAndKill(first, { agents })
      const events = yield* replayed(second, plan_id)
      const { task_id } = single(events, "approval.requested")
      const error = single(events, "error")
      assert.deepInclude(error, { code: "interrupted", stage: "approval" })
      assert.isUndefined(error.data)
      const history = yield* (yield* SessionStore).history(session_id)
      const content = "The plan ended before the call was made."
      assert.deepStrictEqual(
        history.slice(1).map(({ parts }) => parts),
        [
          [
            { type: "text", text: "Paying. " },
            { type: "tool_call", task_id, tool: "bob_pay", input: { input: "7" } }
          ],
          [{ type: "tool_result", task_id, state: "interrupted", content }]
        ]
      )
      assert.deepStrictEqual(yield* waiting(second), [])
      assert.instanceOf(yield* Effect.flip(decide(second, plan_id, task_id)), ApprovalConflict)
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is known to be unmade where the deadline has passed before a process takes its plan over", () =>
    Effect.gen(function* () {
      const first = yield* mortal({ script: [asksBoth.slice(0, 1)] })
      const { plan_id, session_id } = yield* askAndKill(first, {
        agents,
        preferences: { ...stays.preferences, timeout_ms: 5_000 }
      })
      yield* pass("10 minutes", "10 seconds")
      const second = yield* mortal(says)
      const events = yield* replayed(second, plan_id)
      const { task_id } = single(events, "approval.requested")
      assert.deepInclude(single(events, "error"), { code: "aborted", reason: "deadline" })
      const history = yield* (yield* SessionStore).history(session_id)
      const content = "The plan ended before the call was made."
      assert.deepStrictEqual(history.at(-1)?.parts, [{ type: "tool_result", task_id, state: "interrupted", content }])
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is left to the next process at a shutdown, too, while a companion is still open there", () => {
    const stuck = peer(Effect.never)
    const behind = peer(Effect.succeed(hi))
    return Effect.gen(function* () {
      const first = yield* mortal({ script: [asksBoth], peers: stuck.peers })
      const second = yield* mortal({ ...says, peers: behind.peers })
      const { plan_id } = yield* first.on(post({ question: "?", agents, ...stays }))
      yield* pass("1 second")
      const draining = yield* Effect.forkChild(first.plans.drain)
      yield* pass("40 seconds", "1 second")
      yield* Fiber.join(draining)
      const [approval] = yield* waiting(second)
      const task_id = approval?.task_id ?? assert.fail()
      assert.strictEqual((yield* second.plans.get(anonymous, plan_id)).stage, "approval")
      yield* decide(second, plan_id, task_id)
      checkOnce(yield* replayed(second, plan_id), task_id)
      assert.deepStrictEqual(
        behind.calls.map(({ skill, resumes }) => [skill.id, resumes?.taskId]),
        [
          ["ask", "remote-1"],
          ["pay", undefined]
        ]
      )
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })
})
