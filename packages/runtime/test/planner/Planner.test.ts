import { PeerError, Unreachable } from "@bowline/domain/peer/PeerError"
import { callTool, finish, noFinish, say, usage } from "@bowline/testing/provider/Turn"
import { all, single, post, readAll, layer } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Latch } from "effect"
import { TestClock } from "effect/testing"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { askBob, bob, names } from "../plan/Bob.ts"

describe("Planner", () => {
  it.effect("never takes a stream without a finish for an answer, and keeps its text for show only", () =>
    Effect.gen(function* () {
      const { frames, session_id } = yield* post({ question: "?", session_id: "s" })
      const events = yield* readAll(frames)
      assert.notInclude(names(events), "final")
      const error = single(events, "error")
      assert.strictEqual(error.code, "provider_stream_truncated")
      assert.deepInclude(error.data, { attempts: 1, reasons: ["stream_truncated"], partial: true })
      assert.strictEqual(single(events, "usage").input_tokens, 5)
      const { items } = yield* (yield* SessionStore).messages(session_id, { limit: 10 })
      assert.deepStrictEqual(items.at(-1)?.parts, [{ type: "text", text: "Half", partial: true }])

      yield* readAll((yield* post({ question: "Again", session_id: "s" })).frames)
      const [, asked] = yield* (yield* ScriptedProvider).asked.all
      assert.deepStrictEqual(asked?.messages, [
        { role: "user", text: "?" },
        { role: "user", text: "Again" }
      ])
    }).pipe(
      Effect.provide(
        layer({ script: [[say("Half"), usage({ input_tokens: 5 }), noFinish], [say("ok")]], config: { maxRetries: 0 } })
      ),
      Effect.scoped
    )
  )

  it.effect(
    "tells the model in the next request that a call without a name was dropped, and keeps no record of it",
    () =>
      Effect.gen(function* () {
        const { frames, session_id } = yield* post({ question: "?", session_id: "s", agents: [bob] })
        assert.strictEqual(single(yield* readAll(frames), "final").tool_calls, 1)
        yield* readAll((yield* post({ question: "Again", session_id: "s", agents: [bob] })).frames)
        const [, second, third, again] = yield* (yield* ScriptedProvider).asked.all
        const note = /A tool call of yours was not made: it had no name/
        const [result, last] = second?.messages.slice(-2) ?? []
        assert.deepStrictEqual([result?.role, last?.role], ["tool", "user"])
        assert.match(last?.role === "user" ? last.text : "", note)
        // An answer with nothing but a nameless call: the nudge says what was wrong with that one, too.
        assert.match(JSON.stringify(third?.messages), /it had no name.*it had no name.*Your answer was empty/)
        assert.notMatch(JSON.stringify(again?.messages), note)
        const { items } = yield* (yield* SessionStore).messages(session_id, { limit: 10 })
        assert.notMatch(JSON.stringify(items), note)
      }).pipe(
        Effect.provide(
          layer({
            script: [[callTool("", {}), ...askBob], [callTool("", {})], [say("ok")], [say("ok")]],
            peers: { call: () => Effect.succeed({ state: "completed" as const, content: "hi", verified: "unknown" }) }
          })
        ),
        Effect.scoped
      )
  )

  it.effect("tells the model what is wrong with a call that it never makes", () => {
    const called: Array<unknown> = []
    const call: PeerClient["Service"]["call"] = ({ input }) =>
      Effect.sync(() => {
        called.push(input)
        return { state: "completed" as const, content: "done", verified: "unknown" as const }
      })
    return Effect.gen(function* () {
      const { frames } = yield* post({ question: "?", agents: [bob] })
      const events = yield* readAll(frames)
      const ends = all(events, "task.finished").map(({ state }) => state)
      assert.deepStrictEqual(ends, ["invalid", "invalid", "invalid", "completed"])
      assert.deepStrictEqual(called, [{ input: "right" }])
      const [, asked] = yield* (yield* ScriptedProvider).asked.all
      const results = asked?.messages.flatMap((message) => (message.role === "tool" ? [message.content] : [])) ?? []
      assert.match(results[0] ?? "", /not valid JSON/)
      assert.match(results[1] ?? "", /required property 'input'/)
      assert.match(results[2] ?? "", /no tool "bob_aks".*bob_ask/)
      const calls = asked?.messages.flatMap((message) => (message.role === "assistant" ? message.calls : [])) ?? []
      assert.deepStrictEqual(calls[0]?.input, {})
    }).pipe(
      Effect.provide(
        layer({
          script: [
            [
              callTool("bob_ask", '{"input": '),
              callTool("bob_ask", { text: "wrong" }),
              callTool("bob_aks", { input: "x" }),
              callTool("bob_ask", { input: "right" })
            ],
            [say("ok")]
          ],
          peers: { call }
        })
      ),
      Effect.scoped
    )
  })

  it.effect("continues without a tool that takes too long or fails", () => {
    const interruptedAt: Array<number> = []
    const started = Latch.makeUnsafe(false)
    const call: PeerClient["Service"]["call"] = ({ skill }) =>
      Effect.gen(function* () {
        if (skill.id === "broken") {
          return yield* new PeerError({ reason: new Unreachable({ message: "nobody there" }) })
        }
        if (skill.id === "request") yield* started.open
        return yield* Effect.never
      }).pipe(Effect.onInterrupt(() => Effect.map(Clock.currentTimeMillis, (now) => void interruptedAt.push(now))))
    const agent = { ...bob, skills: [{ id: "broken" }, { id: "own", timeout_ms: 200 }, { id: "request" }] }
    const input = { input: "x" }
    return Effect.gen(function* () {
      const { frames } = yield* post({ question: "?", agents: [agent], preferences: { tool_timeout_ms: 700 } })
      const reader = yield* Effect.forkChild(readAll(frames))
      yield* started.await
      yield* TestClock.adjust("1 second")
      const events = yield* Fiber.join(reader)
      const ends = all(events, "task.finished").map(({ state, error, duration_ms }) => [
        state,
        error?.code,
        duration_ms
      ])
      assert.deepStrictEqual(ends, [
        ["failed", "unreachable", 0],
        ["timed-out", "timeout", 200],
        ["timed-out", "timeout", 700]
      ])
      assert.deepStrictEqual(interruptedAt, [200, 700])
      assert.strictEqual(single(events, "final").text, "anyway")
    }).pipe(
      Effect.provide(
        layer({
          script: [
            [callTool("bob_broken", input), callTool("bob_own", input), callTool("bob_request", input)],
            [say("anyway")]
          ],
          peers: { call }
        })
      ),
      Effect.scoped
    )
  })

  it.effect("asks for an answer without tools when the steps or the tool calls are used up", () => {
    const call: PeerClient["Service"]["call"] = () =>
      Effect.succeed({ state: "completed", content: "more", verified: "unknown" })
    const script = ({ toolChoice }: { readonly toolChoice: string }) =>
      toolChoice === "none" ? [say("enough")] : [...askBob, ...askBob, finish("tool_calls")]
    const run = Effect.fnUntraced(function* (preferences: object) {
      const events = yield* readAll((yield* post({ question: "?", agents: [bob], preferences })).frames)
      const states = all(events, "task.finished")
        .map(({ state }) => state)
        .toSorted()
      const { stop_reason, steps, tool_calls, text } = single(events, "final")
      return { stop_reason, steps, tool_calls, text, states }
    })
    return Effect.gen(function* () {
      const text = "enough"
      assert.deepStrictEqual(yield* run({ max_steps: 1 }), {
        stop_reason: "max_steps",
        steps: 1,
        tool_calls: 0,
        text,
        states: []
      })
      assert.deepStrictEqual(yield* run({ max_steps: 2 }), {
        stop_reason: "max_steps",
        steps: 2,
        tool_calls: 2,
        text,
        states: ["completed", "completed"]
      })
      assert.deepStrictEqual(yield* run({ max_tool_calls: 3 }), {
        stop_reason: "max_tool_calls",
        steps: 3,
        tool_calls: 3,
        text,
        states: ["completed", "completed", "completed", "rejected"]
      })
      assert.strictEqual((yield* run({ max_tool_calls: 0 })).steps, 1)
    }).pipe(Effect.provide(layer({ script, peers: { call } })), Effect.scoped)
  })

  it.effect("keeps out of the history what no provider would accept, and continues", () => {
    const deep = `{"input":${"[".repeat(10_000)}${"]".repeat(10_000)}}`
    return Effect.gen(function* () {
      const events = yield* readAll((yield* post({ question: "?", agents: [bob] })).frames)
      assert.deepStrictEqual(
        all(events, "task.finished").map(({ state }) => state),
        ["invalid", "invalid", "invalid"]
      )
      const [, asked] = yield* (yield* ScriptedProvider).asked.all
      const calls = asked?.messages.flatMap((message) => (message.role === "assistant" ? message.calls : [])) ?? []
      for (const { name } of calls) assert.match(name, /^[A-Za-z0-9_-]{1,64}$/)
      const final = single(events, "final")
      assert.strictEqual(final.text, "fine")
      assert.strictEqual(final.usage.output_tokens, Number.MAX_SAFE_INTEGER)
    }).pipe(
      Effect.provide(
        layer({
          script: [
            [
              callTool("bob_ask", deep),
              callTool("bob_ask", '{"input":1e400}'),
              callTool(`no\0 ${"x".repeat(70_000)}`, {})
            ],
            [say("fine"), usage({ output_tokens: 1e30 })]
          ]
        })
      ),
      Effect.scoped
    )
  })

  it.effect("cuts off no reader who keeps up, however much comes at once", () =>
    Effect.gen(function* () {
      const events = yield* readAll((yield* post({ question: "?" })).frames)
      assert.strictEqual(all(events, "text.delta").length, 5_000)
      assert.strictEqual(single(events, "final").text.length, 5_000)
    }).pipe(Effect.provide(layer({ script: [Array.from({ length: 5_000 }, () => say("x"))] })), Effect.scoped)
  )

  it.effect("never says that it has taken less than no time, also when somebody has set the clock back", () => {
    const call = () =>
      Effect.as(TestClock.setTime(0), { state: "completed", content: "hi", verified: "unknown" } as const)
    return Effect.gen(function* () {
      yield* TestClock.setTime(60_000)
      const { frames } = yield* post({ question: "?", agents: [bob] })
      const events = yield* readAll(frames)
      assert.strictEqual(single(events, "task.finished").duration_ms, 0)
      assert.strictEqual(single(events, "final").duration_ms, 0)
    }).pipe(Effect.provide(layer({ script: [askBob, [say("ok")]], peers: { call } })), Effect.scoped)
  })
})
