import { anonymous } from "@bowline/domain/caller/CallerName"
import { PeerError, Unreachable } from "@bowline/domain/peer/PeerError"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { all, layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { Permissions, everything } from "../../src/config/Permissions.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { bob, names, stuckPeers } from "../plan/Bob.ts"
import { askAndKill, hi, mortal, peer, replayed } from "../plan/Mortal.ts"
import { server, toolNamed, weather } from "./Weather.ts"

const call = { agent: "bob", skill: "ask", input: { input: "hi" } }
const body = { question: "bob_ask", agents: [bob], call }

/** Peers whose calls end so. */
const ending = (end: ReturnType<PeerClient["Service"]["call"]>): Partial<PeerClient["Service"]> => ({
  call: () => end
})

const refused = new PeerError({ reason: new Unreachable({ message: "Nobody answers" }) })

describe("a plan that makes one call", () => {
  it.effect("asks no provider: its answer is what the call has said", () =>
    Effect.gen(function* () {
      const { frames, session_id } = yield* post({ ...body, ...weather() })
      const events = yield* readAll(frames)
      assert.deepStrictEqual(names(events), [
        "session",
        "plan",
        "task.started",
        "task.artifact",
        "task.finished",
        "final",
        "done"
      ])
      assert.deepInclude(single(events, "final"), { stop_reason: "stop", text: "hi", steps: 0, tool_calls: 1 })
      assert.deepStrictEqual(yield* (yield* ScriptedProvider).asked.all, [])
      const history = yield* (yield* SessionStore).history(session_id)
      assert.deepStrictEqual(
        history.map(({ parts, role }) => [role, ...parts.map(({ type }) => type)]),
        [
          ["user", "text"],
          ["assistant", "tool_call"],
          ["tool", "tool_result"],
          ["assistant", "text"]
        ]
      )
    }).pipe(Effect.provide(layer({ script: [], peers: ending(Effect.succeed(hi)) })))
  )

  it.effect("waits for no card of another agent, and for no MCP server", () => {
    const { mcp, state } = server(toolNamed("forecast"))
    const peers: Partial<PeerClient["Service"]> = { discover: () => Effect.never, call: () => Effect.succeed(hi) }
    return Effect.gen(function* () {
      const eve = { name: "eve", endpoint: "http://eve.test/" }
      const { frames } = yield* post({ ...body, agents: [eve, { ...bob, dialect: "a2a-0.3" }], ...weather() })
      assert.strictEqual(single(yield* readAll(frames), "final").text, "hi")
      assert.strictEqual(state.lists, 0)
    }).pipe(Effect.provide(layer({ script: [], peers, mcp })))
  })

  it.effect("gives its caller more than a model of its size would read", () => {
    const content = "hi".repeat(10_000)
    return Effect.gen(function* () {
      const { frames } = yield* post(body)
      assert.strictEqual(single(yield* readAll(frames), "final").text, content)
    }).pipe(
      Effect.provide(
        layer({ script: [], peers: ending(Effect.succeed({ ...hi, content })), config: { contextWindow: 8_000 } })
      )
    )
  })

  it.effect.each([
    ["fails", {}, Effect.fail(refused), "tool_failed", "failed", /Nobody answers/],
    [
      "is rejected",
      {},
      Effect.succeed({ state: "rejected", content: "Not for you", verified: "unknown" } as const),
      "tool_failed",
      "rejected",
      /Not for you/
    ],
    ["takes too long", { preferences: { tool_timeout_ms: 100 } }, Effect.never, "tool_failed", "timed-out", /100ms/],
    ["may not be made", { preferences: { max_tool_calls: 0 } }, Effect.never, "tool_failed", "rejected", /No more/],
    [
      "has wrong arguments",
      { call: { ...call, input: { text: 7 } } },
      Effect.never,
      "invalid_request",
      "invalid",
      /input/
    ],
    ["is of no skill", { call: { ...call, skill: "sing" } }, Effect.never, "invalid_request", "invalid", /bob_sing/]
  ] as const)("fails where the call %s, and says why", ([, more, end, code, state, message]) =>
    Effect.gen(function* () {
      const { frames } = yield* post({ ...body, ...more })
      const reading = yield* Effect.forkChild(readAll(frames))
      yield* pass("1 second")
      const error = single(yield* Fiber.join(reading), "error")
      assert.deepInclude(error, { code, retryable: false })
      assert.strictEqual(error.data?.["state"], state)
      assert.match(error.message, message)
    }).pipe(Effect.provide(layer({ script: [], peers: ending(end) })))
  )

  it.effect("counts as one of its caller's calls of the day", () =>
    Effect.gen(function* () {
      assert.lengthOf(all(yield* readAll((yield* post(body)).frames), "final"), 1)
      const error = single(yield* readAll((yield* post(body)).frames), "error")
      assert.deepInclude(error, { code: "tool_failed", data: { tool: "bob_ask", state: "rejected" } })
    }).pipe(
      Effect.provide(
        layer({
          script: [],
          peers: ending(Effect.succeed(hi)),
          config: { budgetOf: () => ({ tokens: 100, tool_calls: 1 }) }
        })
      )
    )
  )

  it.effect("waits for an approval, and is made once it is given", () =>
    Effect.gen(function* () {
      const agents = [{ ...bob, skills: [{ id: "ask", approval: "always" }] }]
      const { frames, plan_id } = yield* post({ ...body, agents })
      const reading = yield* Effect.forkChild(readAll(frames))
      yield* pass("10 minutes", "1 minute")
      const plans = yield* Plans
      const [waiting] = (yield* plans.approvals(anonymous, { limit: 1 })).items
      const approval = { plan_id, task_id: waiting?.task_id ?? assert.fail("Nothing waits") }
      yield* plans.decide({ caller: anonymous, isAdmin: false }, approval, { decision: "approve" })
      yield* pass("10 seconds", "1 second")
      assert.strictEqual(single(yield* Fiber.join(reading), "final").text, "hi")
    }).pipe(Effect.provide(layer({ script: [], peers: ending(Effect.succeed(hi)) })))
  )

  it.effect("ends at its deadline, in the stage of the call, and the peer is let go", () => {
    const { interruptedAt, peers } = stuckPeers()
    return Effect.gen(function* () {
      const { frames } = yield* post({ ...body, preferences: { timeout_ms: 5_000 } })
      const reading = yield* Effect.forkChild(readAll(frames))
      yield* pass("6 seconds")
      const error = single(yield* Fiber.join(reading), "error")
      assert.deepInclude(error, { code: "aborted", reason: "deadline", stage: "tool" })
      assert.deepStrictEqual(interruptedAt, [5_000])
    }).pipe(Effect.provide(layer({ script: [], peers })))
  })

  it.effect("calls no tool that its caller may not use", () =>
    Effect.gen(function* () {
      const { frames } = yield* post(body)
      const error = single(yield* readAll(frames), "error")
      assert.deepInclude(error, { code: "invalid_request", data: { tool: "bob_ask", state: "invalid" } })
    }).pipe(
      Effect.provide(
        layer({ script: [], peers: ending(Effect.never) }).pipe(
          Layer.provide(Layer.succeed(Permissions, { forCaller: () => ({ ...everything, tool: () => false }) }))
        )
      )
    )
  )

  it.effect("is continued by the next process, which waits for the call that was made", () => {
    const first = peer(Effect.never)
    const second = peer()
    return Effect.gen(function* () {
      const { plan_id } = yield* askAndKill(yield* mortal({ script: [], peers: first.peers }), body)
      const next = yield* mortal({ script: [], peers: second.peers })
      const events = yield* replayed(next, plan_id)
      assert.deepInclude(single(events, "final"), { text: "hi", tool_calls: 1 })
      assert.lengthOf(all(events, "task.started"), 1)
      assert.deepStrictEqual(
        [...first.calls, ...second.calls].map(({ resumes }) => resumes?.taskId),
        [undefined, "remote-1"]
      )
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("fails in no stage where the process before has waited for the approval of its call", () => {
    const options = { script: [], peers: ending(Effect.fail(refused)), config: { parkAfter: undefined } }
    return Effect.gen(function* () {
      const agents = [{ ...bob, skills: [{ id: "ask", approval: "always" }] }]
      const { plan_id } = yield* askAndKill(yield* mortal(options), { ...body, agents })
      const { inbox, ...next } = yield* mortal(options)
      const [waiting] = (yield* inbox.waiting(anonymous, {}, { limit: 1 })).items
      const task_id = waiting?.task_id ?? assert.fail("Nothing waits")
      yield* pass("30 seconds", "1 second")
      assert.strictEqual((yield* next.plans.get(anonymous, plan_id)).stage, "approval")
      yield* inbox.accept({ caller: anonymous, isAdmin: false }, plan_id, {
        type: "decision",
        task_id,
        decision: "approve"
      })
      const error = single(yield* replayed({ inbox, ...next }, plan_id), "error")
      assert.deepInclude(error, { code: "tool_failed", stage: null })
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect.each(["before", "behind"] as const)(
    "makes its call once, whichever of its commits its process dies %s",
    (when) =>
      Effect.gen(function* () {
        const ends = yield* Effect.forEach([1, 2, 3, 4, 5, 6], (fatal) => {
          const world = peer(Effect.as(Effect.sleep("100 millis"), hi))
          let commits = 0
          const dies = () => (++commits === fatal ? when : undefined)
          return Effect.gen(function* () {
            const { plan_id } = yield* askAndKill(yield* mortal({ script: [], dies, peers: world.peers }), body)
            const events = yield* replayed(yield* mortal({ script: [], peers: world.peers }), plan_id)
            assert.isAtMost(world.calls.filter(({ resumes }) => resumes === undefined).length, 1)
            const [final] = all(events, "final")
            if (final === undefined) assert.strictEqual(single(events, "error").code, "interrupted")
            else assert.strictEqual(final.text, "hi")
            return final !== undefined
          }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
        })
        assert.include(ends, true)
      })
  )
})
