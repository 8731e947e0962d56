import { anonymous } from "@bowline/domain/caller/CallerName"
import { PeerError, Unreachable } from "@bowline/domain/peer/PeerError"
import { SessionBusy } from "@bowline/domain/plan/Refusal"
import { wait } from "@bowline/testing/http/Move"
import { callTool, finish, noFinish, say, think, usage } from "@bowline/testing/provider/Turn"
import { all, only, pass, post, readAll, seen, layer } from "@bowline/testing/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Deferred, Effect, Exit, Fiber, Latch, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import type { PeerClient } from "../../src/peer/PeerClient.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { SessionStore } from "../../src/session/SessionStore.ts"

const bob = { name: "bob", endpoint: "http://bob.test/", skills: [{ id: "ask" }] }
const askBob = [callTool("bob_ask", { input: "hi" })]

/** Peers that never answer, and remember when they were let go. */
const stuckPeers = () => {
  const interruptedAt: Array<number> = []
  const call: PeerClient["Service"]["call"] = (_, onEvent) =>
    onEvent({ _tag: "Accepted", remoteTaskId: "remote-1", remoteContextId: "context-1" }).pipe(
      Effect.andThen(Effect.never),
      Effect.onInterrupt(() => Effect.map(Clock.currentTimeMillis, (now) => void interruptedAt.push(now)))
    )
  return { interruptedAt, peers: { call } }
}

const names = (events: ReturnType<typeof seen>) =>
  events.map((event) => (typeof event === "string" ? event : event.event))

describe("Plans", () => {
  it.effect("answers with gapless frames that end in final and done", () =>
    Effect.gen(function* () {
      const { frames } = yield* post({ question: "Hello?" })
      const items = yield* Stream.runCollect(frames)
      const events = seen(items)
      assert.deepStrictEqual(
        items.map((item) => (typeof item === "string" ? item : item.seq)),
        items.map((_, index) => index + 1)
      )
      assert.deepStrictEqual(names(events), [
        "session",
        "plan",
        "step",
        "reasoning.delta",
        "text.delta",
        "text.delta",
        "usage",
        "final",
        "done"
      ])
      const final = only(events, "final")
      assert.strictEqual(final.text, "Hello world")
      assert.strictEqual(final.usage.output_tokens, 7)
    }).pipe(
      Effect.provide(layer({ script: [[think("hm"), say("Hello"), say(" world"), usage({ output_tokens: 7 })]] })),
      Effect.scoped
    )
  )

  it.effect("ends after a deadline of six hours with the tool that it waited for", () => {
    const { interruptedAt, peers } = stuckPeers()
    return Effect.gen(function* () {
      const timeout_ms = 21_600_000
      const preferences = { timeout_ms, tool_timeout_ms: timeout_ms }
      const { frames, plan_id } = yield* post({ question: "?", agents: [bob], preferences })
      const reader = yield* Effect.forkChild(readAll(frames))
      yield* TestClock.adjust(timeout_ms)
      const events = yield* Fiber.join(reader)
      assert.deepStrictEqual(
        names(events).filter((name) => name !== "ping"),
        ["session", "plan", "step", "task.started", "task.finished", "error", "done"]
      )
      const { task_id } = only(events, "task.started")
      const finished = only(events, "task.finished")
      assert.strictEqual(finished.state, "interrupted")
      assert.strictEqual(finished.remote_task_id, "remote-1")
      const error = only(events, "error")
      assert.deepInclude(error, { code: "aborted", reason: "deadline", stage: "tool", retryable: true })
      assert.deepInclude(error.data, { tool: "bob_ask", task_id, elapsed_ms: timeout_ms })
      assert.deepStrictEqual(interruptedAt, [timeout_ms])
      assert.strictEqual((yield* (yield* Plans).get(anonymous, plan_id)).state, "aborted")
    }).pipe(Effect.provide(layer({ script: [askBob], peers })), Effect.scoped)
  })

  it.effect("gives the session to the next question when the deadline of 500 ms has ended one that was stuck", () => {
    const { peers } = stuckPeers()
    return Effect.gen(function* () {
      const preferences = { timeout_ms: 500 }
      const first = yield* post({ question: "?", session_id: "s", agents: [bob], preferences })
      yield* Effect.forkChild(readAll(first.frames))
      yield* TestClock.adjust(500)
      const second = yield* post({ question: "And now?", session_id: "s" })
      const events = yield* readAll(second.frames)
      assert.strictEqual(second.session_id, first.session_id)
      assert.notInclude(names(events), "queued")
      assert.strictEqual(only(events, "final").text, "fine")
      // The call that was cut is answered in what the provider gets to see.
      const [, asked] = yield* (yield* ScriptedProvider).asked.all
      const [user, assistant, tool, next] = asked?.messages ?? []
      assert.deepStrictEqual(
        [user?.role, assistant?.role, tool?.role, next?.role],
        ["user", "assistant", "tool", "user"]
      )
    }).pipe(Effect.provide(layer({ script: [askBob, [say("fine")]], peers })), Effect.scoped)
  })

  it.effect("never takes a stream without a finish for an answer, and keeps its text for show only", () =>
    Effect.gen(function* () {
      const { frames, session_id } = yield* post({ question: "?", session_id: "s" })
      const events = yield* readAll(frames)
      assert.notInclude(names(events), "final")
      const error = only(events, "error")
      assert.strictEqual(error.code, "provider_stream_truncated")
      assert.deepInclude(error.data, { attempts: 1, reasons: ["stream_truncated"], partial: true })
      assert.strictEqual(only(events, "usage").input_tokens, 5)
      const { items } = yield* (yield* SessionStore).messages(session_id, { limit: 10 })
      assert.deepStrictEqual(items.at(-1)?.parts, [{ type: "text", text: "Half", partial: true }])

      yield* readAll((yield* post({ question: "Again", session_id: "s" })).frames)
      const [, asked] = yield* (yield* ScriptedProvider).asked.all
      assert.deepStrictEqual(asked?.messages, [
        { role: "user", text: "?" },
        { role: "user", text: "Again" }
      ])
    }).pipe(
      Effect.provide(layer({ script: [[say("Half"), usage({ input_tokens: 5 }), noFinish], [say("ok")]] })),
      Effect.scoped
    )
  )

  it.effect("is aborted when its last reader leaves, and not before", () => {
    const { interruptedAt, peers } = stuckPeers()
    return Effect.gen(function* () {
      const plans = yield* Plans
      const caller = yield* Scope.make()
      const { plan_id } = yield* post({ question: "?", agents: [bob] }).pipe(Scope.provide(caller))
      const other = yield* Scope.make()
      yield* plans.events(anonymous, plan_id, 0).pipe(Scope.provide(other))
      yield* TestClock.adjust("1 second")
      yield* Scope.close(caller, Exit.void)
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* plans.get(anonymous, plan_id)).state, "running")
      yield* Scope.close(other, Exit.void)
      yield* TestClock.adjust(0)
      assert.deepStrictEqual(interruptedAt, [2_000])
      const plan = yield* plans.get(anonymous, plan_id)
      assert.deepInclude(plan, { state: "aborted" })
      assert.deepInclude(plan.error, { reason: "disconnect", stage: "tool", retryable: false })
    }).pipe(Effect.provide(layer({ script: [askBob], peers })))
  })

  it.effect("runs on without a reader when the caller asked for it, and can be read from any seq later", () =>
    Effect.gen(function* () {
      const plans = yield* Plans
      const { plan_id } = yield* Effect.scoped(post({ question: "?", preferences: { on_disconnect: "continue" } }))
      yield* TestClock.adjust("1 minute")
      const whole = yield* Effect.scoped(
        Effect.flatMap(plans.events(anonymous, plan_id, 0), ({ frames }) => Stream.runCollect(frames))
      )
      assert.strictEqual(only(seen(whole), "final").text, "ab")
      for (let after = 1; after < whole.length; after++) {
        const rest = yield* Effect.scoped(
          Effect.flatMap(plans.events(anonymous, plan_id, after), ({ frames }) => Stream.runCollect(frames))
        )
        assert.deepStrictEqual(rest, whole.slice(after))
      }
      const past = yield* Effect.scoped(plans.events(anonymous, plan_id, whole.length + 1)).pipe(Effect.flip)
      assert.strictEqual(past._tag, "InvalidRequest")
    }).pipe(Effect.provide(layer({ script: [[say("a"), wait("30 seconds"), say("b")]] })))
  )

  it.effect("is cancelled once, and stays as it ended", () => {
    const { peers } = stuckPeers()
    return Effect.gen(function* () {
      const plans = yield* Plans
      const { plan_id } = yield* post({ question: "?", agents: [bob] })
      yield* TestClock.adjust("1 second")
      const cancelled = yield* plans.cancel(anonymous, plan_id)
      assert.deepInclude(cancelled.error, { code: "aborted", reason: "cancelled" })
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* plans.cancel(anonymous, plan_id), cancelled)
    }).pipe(Effect.provide(layer({ script: [askBob], peers })), Effect.scoped)
  })

  it.effect("waits for the session in the order of asking, says so, and never mixes two histories", () =>
    Effect.gen(function* () {
      const ask = (question: string) => post({ question, session_id: "s" })
      const [first, ...others] = [yield* ask("one"), yield* ask("two"), yield* ask("three")] as const
      const readers = yield* Effect.forEach([first, ...others], ({ frames }) => Effect.forkChild(readAll(frames)))
      yield* pass("4 seconds")
      const [one = [], two = [], three = []] = yield* Effect.forEach(readers, Fiber.join)
      const positions = (events: ReturnType<typeof seen>) => all(events, "queued").map(({ position }) => position)
      assert.deepStrictEqual([one, two, three].map(positions), [[], [1], [2, 1]])
      const { items } = yield* (yield* SessionStore).messages(first.session_id, { limit: 10 })
      assert.deepStrictEqual(
        items.map(({ role, parts: [part] }) => [role, part?.type === "text" ? part.text : undefined]),
        [
          ["user", "one"],
          ["assistant", "re: one"],
          ["user", "two"],
          ["assistant", "re: two"],
          ["user", "three"],
          ["assistant", "re: three"]
        ]
      )
    }).pipe(
      Effect.provide(
        layer({
          script: ({ messages }) => {
            const last = messages.findLast(({ role }) => role === "user")
            return [wait("1 second"), say(`re: ${last?.role === "user" ? last.text : ""}`)]
          }
        })
      ),
      Effect.scoped
    )
  )

  it.effect(
    "takes over from the older plans of the session when it may interrupt them, and refuses when it may not wait",
    () =>
      Effect.gen(function* () {
        const first = yield* post({ question: "1", session_id: "s" })
        const second = yield* post({ question: "2", session_id: "s" })
        const readers = yield* Effect.forEach([first, second], ({ frames }) => Effect.forkChild(readAll(frames)))
        yield* TestClock.adjust("1 second")
        const refused = yield* post({ question: "3", session_id: "s", preferences: { on_busy: "reject" } }).pipe(
          Effect.flip
        )
        assert.instanceOf(refused, SessionBusy)
        const third = yield* post({ question: "3", session_id: "s", preferences: { on_busy: "interrupt" } })
        const [one = [], two = []] = yield* Effect.forEach(readers, Fiber.join)
        assert.deepInclude(only(one, "error"), { reason: "superseded", stage: "provider" })
        assert.deepInclude(only(two, "error"), { reason: "superseded", stage: "queue" })
        const reader = yield* Effect.forkChild(readAll(third.frames))
        yield* TestClock.adjust("1 hour")
        assert.strictEqual(only(yield* Fiber.join(reader), "final").text, "at last")
      }).pipe(Effect.provide(layer({ script: () => [wait("1 minute"), say("at last")] })), Effect.scoped)
  )

  it.effect("tells the model what is wrong with a call that it never makes", () => {
    const called: Array<unknown> = []
    const call: PeerClient["Service"]["call"] = ({ input }) =>
      Effect.sync(() => {
        called.push(input)
        return { state: "completed" as const, content: "done" }
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

  it.effect("goes on without a tool that takes too long or fails", () => {
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
      assert.strictEqual(only(events, "final").text, "anyway")
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
    const call: PeerClient["Service"]["call"] = () => Effect.succeed({ state: "completed", content: "more" })
    const script = ({ toolChoice }: { readonly toolChoice: string }) =>
      toolChoice === "none" ? [say("enough")] : [...askBob, ...askBob, finish("tool_calls")]
    const run = Effect.fnUntraced(function* (preferences: object) {
      const events = yield* readAll((yield* post({ question: "?", agents: [bob], preferences })).frames)
      const states = all(events, "task.finished")
        .map(({ state }) => state)
        .toSorted()
      const { stop_reason, steps, tool_calls, text } = only(events, "final")
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

  it.effect("frees the session after 10 s though a tool of the plan that ended does not let go", () => {
    const hung = Deferred.makeUnsafe<void>()
    const call: PeerClient["Service"]["call"] = () => Effect.onInterrupt(Effect.never, () => Deferred.await(hung))
    return Effect.gen(function* () {
      const first = yield* post({ question: "?", session_id: "s", agents: [bob], preferences: { timeout_ms: 1_000 } })
      const reader = yield* Effect.forkChild(readAll(first.frames))
      yield* TestClock.adjust("1 second")
      assert.strictEqual(only(yield* Fiber.join(reader), "error").code, "aborted")
      const second = yield* post({ question: "And now?", session_id: "s" })
      const next = yield* Effect.forkChild(readAll(second.frames))
      yield* TestClock.adjust("9 seconds")
      assert.isUndefined(next.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.strictEqual(only(yield* Fiber.join(next), "final").text, "fine")
      yield* Deferred.succeed(hung, undefined)
    }).pipe(Effect.provide(layer({ script: [askBob, [say("fine")]], peers: { call } })), Effect.scoped)
  })

  it.effect("says ping after 10 s of silence", () =>
    Effect.gen(function* () {
      const { frames } = yield* post({ question: "?" })
      const reader = yield* Effect.forkChild(readAll(frames))
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(names(yield* Fiber.join(reader)), [
        "session",
        "plan",
        "step",
        "text.delta",
        "ping",
        "ping",
        "text.delta",
        "final",
        "done"
      ])
    }).pipe(Effect.provide(layer({ script: [[say("a"), wait("25 seconds"), say("b")]] })), Effect.scoped)
  )

  it.effect("lets running plans go on for the grace, then aborts them, and takes no new ones", () =>
    Effect.gen(function* () {
      const plans = yield* Plans
      const posted = yield* Effect.forEach(["short", "long"], (question) => post({ question }))
      const readers = yield* Effect.forEach(posted, ({ frames }) => Effect.forkChild(readAll(frames)))
      const drained = yield* Effect.forkChild(plans.drain)
      yield* TestClock.adjust("10 seconds")
      assert.deepInclude(yield* Effect.flip(post({ question: "new" })), { code: "draining" })
      assert.isUndefined(drained.pollUnsafe())
      yield* TestClock.adjust("20 seconds")
      yield* Fiber.join(drained)
      const [one = [], two = []] = yield* Effect.forEach(readers, Fiber.join)
      assert.strictEqual(only(one, "final").text, "done")
      assert.deepInclude(only(two, "error"), { reason: "shutdown", retryable: true, stage: "provider" })
    }).pipe(
      Effect.provide(
        layer({
          script: ({ messages: [message] }) =>
            message?.role === "user" && message.text === "short"
              ? [wait("10 seconds"), say("done")]
              : [say("..."), wait("100 seconds")]
        })
      ),
      Effect.scoped
    )
  )
})
