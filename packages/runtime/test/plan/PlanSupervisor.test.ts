import { anonymous } from "@bowline/domain/caller/CallerName"
import { SessionBusy } from "@bowline/domain/plan/Refusal"
import { stall, wait } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { all, single, pass, post, readAll, seen, layer, layerOfCredentials } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { Connections } from "../../src/provider/HttpAttempt.ts"
import { Provider } from "../../src/provider/Provider.ts"
import { CredentialPool } from "../../src/asking/CredentialPool.ts"
import type { PlanStore } from "../../src/store/PlanStore.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { apart, measured } from "../telemetry/Measured.ts"
import { askBob, bob, names, stuckPeers } from "./Bob.ts"

describe("PlanSupervisor", () => {
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
      const { task_id } = single(events, "task.started")
      const finished = single(events, "task.finished")
      assert.strictEqual(finished.state, "interrupted")
      assert.strictEqual(finished.remote_task_id, "remote-1")
      const error = single(events, "error")
      assert.deepInclude(error, { code: "aborted", reason: "deadline", stage: "tool", retryable: true })
      assert.deepInclude(error.data, { tool: "bob_ask", task_id, elapsed_ms: timeout_ms })
      assert.deepStrictEqual(interruptedAt, [timeout_ms])
      assert.strictEqual((yield* (yield* Plans).get(anonymous, plan_id)).state, "aborted")
    }).pipe(Effect.provide(layer({ script: [askBob], peers })), Effect.scoped)
  })

  it.effect(
    "closes the connections of all plans that end at one instant at once, and ends one plan in each turn of the event loop",
    () => {
      let turn = 0
      let closed = 0
      const interruptedIn: Array<number> = []
      const adapter = Layer.succeed(Provider, {
        name: "scripted",
        stream: () =>
          Stream.unwrap(
            Effect.withFiber((fiber) => {
              fiber.getRef(Connections)?.add(() => closed++)
              return Effect.succeed(Stream.onExit(Stream.never, () => Effect.sync(() => interruptedIn.push(turn))))
            })
          )
      })
      return Effect.gen(function* () {
        const readings = yield* Effect.forEach(["a", "b", "c"], (question) => post({ question }))
        const disconnects = readings.map(({ connect }) => connect(() => {}))
        const readers = yield* Effect.forEach(readings, ({ frames }) => Effect.forkChild(readAll(frames)))
        yield* pass("1 second")
        yield* Effect.forkChild(
          Effect.forever(
            Effect.andThen(
              Effect.sync(() => turn++),
              Effect.yieldNow
            )
          )
        )
        for (const disconnect of disconnects) disconnect()
        assert.deepStrictEqual([closed, interruptedIn.length], [3, 0])
        for (const events of yield* Fiber.joinAll(readers)) {
          assert.deepInclude(single(events, "error"), { reason: "disconnect", stage: "provider" })
        }
        assert.strictEqual(new Set(interruptedIn).size, 3)
      }).pipe(Effect.provide(layerOfCredentials([adapter])), Effect.scoped)
    }
  )

  it.effect("ends a plan that waits for a peer when the scope of its reader closes, and not before", () => {
    const { interruptedAt, peers } = stuckPeers()
    return Effect.gen(function* () {
      const connection = yield* Scope.make()
      const { connect } = yield* Scope.provide(post({ question: "?", agents: [bob] }), connection)
      const disconnect = connect(() => {})
      yield* pass("1 second")
      disconnect()
      yield* pass("1 second")
      assert.isEmpty(interruptedAt)
      yield* Scope.close(connection, Exit.void)
      yield* pass("1 second")
      assert.lengthOf(interruptedAt, 1)
    }).pipe(Effect.provide(layer({ script: [askBob], peers })), Effect.scoped)
  })

  it.effect("ends a plan whose lease is missing from a renewal because its end is being stored", () => {
    const disturb = (store: PlanStore["Service"]): Partial<PlanStore["Service"]> => ({
      commit: (batch) =>
        Effect.tap(
          store.commit(batch),
          batch.some(({ changes }) => changes.some(({ _tag }) => _tag === "Released"))
            ? Effect.sleep("12 seconds")
            : Effect.void
        )
    })
    return Effect.gen(function* () {
      const { frames } = yield* post({ question: "?" })
      const reader = yield* Effect.forkChild(readAll(frames))
      yield* pass("13 seconds", "1 second")
      const events = yield* Fiber.join(reader)
      assert.deepStrictEqual(names(events).slice(-2), ["final", "done"])
      assert.strictEqual(yield* measured("bowline.leases.lost"), 0)
    }).pipe(Effect.provide(layer({ script: [[say("hi")]], disturb })), Effect.scoped, apart)
  })

  describe("at the deadline", () => {
    const config = { firstTokenTimeout: Duration.minutes(10), idleTimeout: Duration.minutes(2) }
    /** The state of the credential when the plan has ended, in that stage. */
    const credentialAfter = Effect.fnUntraced(function* (stage: "provider" | "tool", end: "deadline" | "cancelled") {
      const preferences = { timeout_ms: 180_000 }
      const { frames, plan_id } = yield* post({ question: "?", agents: [bob], preferences })
      const reader = yield* Effect.forkChild(readAll(frames))
      yield* pass("179 seconds", "1 second")
      if (end === "cancelled") yield* (yield* Plans).cancel(anonymous, plan_id)
      yield* pass("2 seconds", "1 second")
      assert.deepInclude(single(yield* Fiber.join(reader), "error"), { reason: end, stage })
      const [credential] = yield* (yield* CredentialPool).list
      return credential?.windows.map(({ model, reason }) => [model, reason])
    }, Effect.scoped)

    it.effect("puts the credential aside when nothing had come for the idle limit", () =>
      Effect.gen(function* () {
        const windows = yield* credentialAfter("provider", "deadline")
        assert.deepStrictEqual(windows, [["scripted/model", "idle_timeout"]])
      }).pipe(Effect.provide(layer({ script: () => [stall], config })))
    )

    it.effect("does not touch the credential when something had come", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* credentialAfter("provider", "deadline"), [])
      }).pipe(Effect.provide(layer({ script: () => [wait("100 seconds"), say("Half"), stall], config })))
    )

    it.effect("does not touch the credential when a tool was running", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* credentialAfter("tool", "deadline"), [])
      }).pipe(Effect.provide(layer({ script: [askBob], peers: stuckPeers().peers, config })))
    )

    it.effect("does not touch the credential when the plan was cancelled instead", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* credentialAfter("provider", "cancelled"), [])
      }).pipe(Effect.provide(layer({ script: () => [stall], config })))
    )
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
      const { items } = yield* (yield* SessionStore).messages(first.session_id, { limit: 10 })
      assert.deepStrictEqual(
        items.map(({ role }) => role),
        ["user", "assistant", "tool", "user", "assistant"]
      )
      assert.notInclude(names(events), "queued")
      assert.strictEqual(single(events, "final").text, "fine")
      // The call that was cut is answered in what the provider gets to see.
      const [, asked] = yield* (yield* ScriptedProvider).asked.all
      const [user, assistant, tool, next] = asked?.messages ?? []
      assert.deepStrictEqual(
        [user?.role, assistant?.role, tool?.role, next?.role],
        ["user", "assistant", "tool", "user"]
      )
    }).pipe(Effect.provide(layer({ script: [askBob, [say("fine")]], peers })), Effect.scoped)
  })

  it.effect("waits for the session in the order of the requests, says so, and never mixes two histories", () =>
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
    "interrupts the older plans of the session when it may interrupt them, and is refused when it may not wait",
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
        assert.deepInclude(single(one, "error"), { reason: "superseded", stage: "provider" })
        assert.deepInclude(single(two, "error"), { reason: "superseded", stage: "queue" })
        const reader = yield* Effect.forkChild(readAll(third.frames))
        yield* TestClock.adjust("1 hour")
        assert.strictEqual(single(yield* Fiber.join(reader), "final").text, "at last")
      }).pipe(Effect.provide(layer({ script: () => [wait("1 minute"), say("at last")] })), Effect.scoped)
  )

  it.effect("releases the session after 10 s though a tool of the ended plan still runs", () => {
    const hung = Deferred.makeUnsafe<void>()
    const call: PeerClient["Service"]["call"] = () => Effect.onInterrupt(Effect.never, () => Deferred.await(hung))
    return Effect.gen(function* () {
      const first = yield* post({ question: "?", session_id: "s", agents: [bob], preferences: { timeout_ms: 1_000 } })
      const reader = yield* Effect.forkChild(readAll(first.frames))
      yield* pass("1 second")
      assert.strictEqual(single(yield* Fiber.join(reader), "error").stage, "tool")
      const second = yield* post({ question: "And now?", session_id: "s" })
      const next = yield* Effect.forkChild(readAll(second.frames))
      yield* pass("9 seconds")
      assert.isUndefined(next.pollUnsafe())
      yield* pass("1 second")
      assert.strictEqual(single(yield* Fiber.join(next), "final").text, "fine")
      yield* Deferred.succeed(hung, undefined)
    }).pipe(Effect.provide(layer({ script: [askBob, [say("fine")]], peers: { call } })), Effect.scoped)
  })
})
