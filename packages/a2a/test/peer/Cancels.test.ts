import { assert, describe, it } from "@effect/vitest"
import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { becomes, completes, replies, says, stuck } from "@bowline/testing/peer/Act"
import { serve } from "@bowline/testing/peer/ScriptedPeer"
import * as Trouble from "@bowline/testing/unstable/peer/Trouble"
import { TryLeave } from "@bowline/runtime/unstable/http/Exchange"
import { Deferred, Effect, Exit, Fiber, Layer, Logger, Scope } from "effect"
import { HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import * as A2aPeerClient from "../../src/peer/A2aPeerClient.ts"
import { memory, question, reasonOf, start } from "./call.ts"

describe.each(["a2a-1.0", "a2a-0.3", "bindu"] as const)("a call in %s that leaves its task unfinished", (dialect) => {
  it.effect("stops polling and cancels the task, interrupted in the middle of a wait of 5 seconds", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, acts: [stuck] })
      const { fiber } = yield* start(question(peer.url, { dialect }))
      yield* TestClock.adjust("2 minutes")
      const { polls, sends } = yield* peer.seen
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(yield* peer.cancelled, sends[0]?.taskId)
      yield* TestClock.adjust("1 minute")
      const after = yield* peer.seen
      assert.strictEqual(after.polls.length, polls.length)
      assert.deepStrictEqual([after.cancels.length, after.refused], [1, []])
    }).pipe(Effect.provide(memory))
  )

  it.effect("does not wait for the cancel, which has 5 seconds and is not repeated", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, acts: [stuck] })
      yield* peer.disturb("tasks/cancel", Trouble.silent)
      const { fiber } = yield* start(question(peer.url, { dialect }))
      yield* Fiber.interrupt(fiber)
      yield* peer.cancelled
      assert.strictEqual(yield* peer.requests.open, 1)
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(yield* peer.requests.open, 0)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* peer.seen).cancels.length, 1)
    }).pipe(Effect.provide(memory))
  )

  it.effect("has its cancel awaited by the layer that closes, but for 5 seconds at most", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, acts: [stuck] })
      yield* peer.disturb("tasks/cancel", Trouble.late("3 seconds"), Trouble.silent)
      for (const seconds of [3, 5]) {
        const scope = yield* Scope.make()
        const client = yield* Layer.buildWithScope(Layer.fresh(A2aPeerClient.layer), scope)
        const { fiber } = yield* start(question(peer.url, { dialect })).pipe(Effect.provide(client))
        yield* Fiber.interrupt(fiber)
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
        yield* TestClock.adjust(seconds * 1_000 - 1)
        assert.isUndefined(closing.pollUnsafe())
        yield* TestClock.adjust(1)
        yield* Fiber.join(closing)
      }
      assert.strictEqual((yield* peer.seen).cancels.length, 2)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("cancels the task of an answer that does not decode", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, acts: [stuck] })
      const id = "00000000-0000-4000-8000-00000000000a"
      yield* peer.disturb(
        "message/send",
        Trouble.answers(200, {}, `{"result":{"kind":"task","id":"${id}","status":1}}`)
      )
      assert.strictEqual((yield* reasonOf(yield* start(question(peer.url, { dialect }))))._tag, "protocol")
      assert.strictEqual(yield* peer.cancelled, id)
    }).pipe(Effect.provide(memory))
  )

  it.effect("sends no cancel when the peer has said that the task is over, or that there is none", () =>
    Effect.gen(function* () {
      for (const acts of [[completes()], [replies("Hello")], [becomes("input-required")]]) {
        const peer = yield* serve({ dialect, acts })
        yield* Fiber.join((yield* start(question(peer.url, { dialect }))).fiber)
        yield* peer.disturb("message/send", Trouble.answers(401))
        yield* reasonOf(yield* start(question(peer.url, { dialect })))
        yield* TestClock.adjust("10 seconds")
        assert.deepStrictEqual((yield* peer.seen).cancels, [])
      }
    }).pipe(Effect.provide(memory))
  )

  it.effect("sends no cancel when it is interrupted while it reports a task that is over", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, acts: [says("Look"), completes()] })
      const { fiber } = yield* start(question(peer.url, { dialect }), () => Effect.never)
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual((yield* peer.seen).cancels, [])
    }).pipe(Effect.provide(memory))
  )
})

it.effect.each(["a2a-1.0", "bindu"] as const)(
  "a task in %s that an earlier process left open is cancelled as soon as its card is there, within 5 seconds in all",
  (dialect) =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, acts: [stuck] })
      const { agent, route } = question(peer.url, { dialect: "auto" })
      const left = { agent, route, taskId: "00000000-0000-4000-8000-00000000000a", contextId: null }
      const { cancel } = yield* PeerClient
      yield* peer.disturb("card", Trouble.answers(503), Trouble.answers(503))
      yield* cancel(left)
      yield* TestClock.adjust("1 second")
      assert.deepInclude(yield* peer.seen, { cancels: [left.taskId], refused: [] })

      const slow = yield* serve({ dialect, acts: [stuck] })
      yield* slow.disturb("card", Trouble.late("1999 millis"))
      yield* slow.disturb("tasks/cancel", Trouble.silent)
      yield* cancel({ ...left, agent: question(slow.url, { dialect: "auto" }).agent })
      yield* TestClock.adjust("4999 millis")
      assert.strictEqual(yield* slow.requests.open, 1)
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* slow.requests.open, 0)
    }).pipe(Effect.provide([memory, Logger.layer([])]))
)

it.effect("a bindu task is cancelled also when its send was cut before the answer, as the client made its id", () =>
  Effect.gen(function* () {
    for (const trouble of [Trouble.silent, Trouble.breaks("reset"), Trouble.answers(503)]) {
      const peer = yield* serve({ dialect: "bindu", acts: [stuck] })
      yield* peer.disturb("message/send", trouble)
      const { events, fiber } = yield* start(question(peer.url, { dialect: "bindu" }))
      const { sends } = yield* peer.awaitSeen(({ sends }) => sends.length > 0)
      const [accepted] = events
      assert.strictEqual(accepted?._tag === "Accepted" && accepted.remoteTaskId, sends[0]?.taskId)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(yield* peer.cancelled, sends[0]?.taskId)
    }
  }).pipe(Effect.provide(memory))
)

it.effect("a bindu task that its peer does not know yet is cancelled once more when the message is answered", () =>
  Effect.gen(function* () {
    const peer = yield* serve({ dialect: "bindu", acts: [stuck] })
    const unknown = `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"Task not found"}}`
    yield* peer.disturb("message/send", Trouble.late("3 seconds"))
    yield* peer.disturb("tasks/cancel", Trouble.answers(200, {}, unknown))
    const { fiber } = yield* start(question(peer.url, { dialect: "bindu" }))
    const { sends } = yield* peer.awaitSeen(({ sends }) => sends.length > 0)
    yield* Fiber.interrupt(fiber)
    const ids = sends.map(({ taskId }) => taskId)
    yield* TestClock.adjust("2999 millis")
    assert.deepStrictEqual((yield* peer.seen).cancels, ids)
    yield* TestClock.adjust("10 seconds")
    assert.deepStrictEqual((yield* peer.seen).cancels, [...ids, ...ids])
    assert.strictEqual(yield* peer.requests.open, 0)
  }).pipe(Effect.provide(memory))
)

it.effect("a message that waits for its connection is dropped when its call is interrupted", () => {
  const lines: Array<string> = []
  const logger = Logger.make(({ message }) => lines.push(String(message)))
  const connected = Deferred.makeUnsafe<void>()
  const waiting = Deferred.makeUnsafe<void>()
  const connecting = Effect.map(HttpClient.HttpClient, (client) =>
    HttpClient.make((request) =>
      Effect.gen(function* () {
        yield* Deferred.succeed(waiting, undefined)
        yield* Deferred.await(connected)
        return (yield* TryLeave)?.() === true ? yield* client.execute(request) : yield* Effect.interrupt
      })
    )
  )
  const network = Layer.provideMerge(Layer.effect(HttpClient.HttpClient, connecting), MemoryNetwork.layer)
  return Effect.gen(function* () {
    const peer = yield* serve({ acts: [stuck] })
    const { fiber } = yield* start(question(peer.url))
    yield* Deferred.await(waiting)
    yield* Fiber.interrupt(fiber)
    yield* Deferred.succeed(connected, undefined)
    yield* TestClock.adjust("10 seconds")
    assert.deepStrictEqual([yield* peer.requests.all, lines], [[], []])
  }).pipe(Effect.provide([Layer.provideMerge(A2aPeerClient.layer, network), Logger.layer([logger])]))
})

describe.each(["a2a-1.0", "a2a-0.3"] as const)(
  "a call in %s that is interrupted before the peer has named its task",
  (dialect) => {
    it.effect.each([false, true])(
      "ends at once, and the task is cancelled as soon as the answer names it: a stream %s",
      (streams) =>
        Effect.gen(function* () {
          const peer = yield* serve({ dialect, streams, acts: [stuck] })
          yield* peer.disturb(streams ? "message/stream" : "message/send", Trouble.late("3 seconds"))
          const { fiber } = yield* start(question(peer.url, { dialect, streaming: streams }))
          const seen = yield* peer.awaitSeen(({ sends, streams }) => sends.length + streams.length > 0)
          yield* Fiber.interrupt(fiber)
          yield* TestClock.adjust("2999 millis")
          assert.deepStrictEqual((yield* peer.seen).cancels, [])
          yield* TestClock.adjust("1 millis")
          const { cancels, polls } = yield* peer.seen
          assert.deepStrictEqual(
            cancels,
            [...seen.sends, ...seen.streams].map(({ taskId }) => taskId)
          )
          assert.deepStrictEqual([yield* peer.requests.open, polls], [0, []])
        }).pipe(Effect.provide(memory))
    )

    it.effect("cancels nothing where the answer says that the task is over", () =>
      Effect.gen(function* () {
        const peer = yield* serve({ dialect, acts: [completes()] })
        yield* peer.disturb("message/send", Trouble.late("3 seconds"))
        const { fiber } = yield* start(question(peer.url, { dialect }))
        yield* peer.awaitSeen(({ sends }) => sends.length > 0)
        yield* Fiber.interrupt(fiber)
        yield* TestClock.adjust("10 seconds")
        assert.deepStrictEqual((yield* peer.seen).cancels, [])
      }).pipe(Effect.provide(memory))
    )

    it.effect("sends its message nowhere else, though the answer is a redirect", () =>
      Effect.gen(function* () {
        const peer = yield* serve({ dialect, acts: [stuck] })
        yield* peer.disturb("message/send", {
          when: "after",
          spoil: (answer) =>
            Effect.delay(Effect.succeed({ ...answer, status: 307, headers: { location: "/" } }), "3 seconds")
        })
        const { fiber } = yield* start(question(peer.url, { dialect }))
        yield* peer.awaitSeen(({ sends }) => sends.length > 0)
        yield* Fiber.interrupt(fiber)
        yield* TestClock.adjust("10 seconds")
        assert.strictEqual((yield* peer.requests.all).length, 1)
      }).pipe(Effect.provide(memory))
    )

    it.effect("leaves its task to the next process, if that continues it", () =>
      Effect.gen(function* () {
        const peer = yield* serve({ dialect, acts: [stuck] })
        yield* peer.disturb("message/send", Trouble.late("3 seconds"))
        const { fiber } = yield* start(question(peer.url, { dialect }, { isHandedOver: () => true }))
        yield* peer.awaitSeen(({ sends }) => sends.length > 0)
        yield* Fiber.interrupt(fiber)
        assert.strictEqual(yield* peer.requests.open, 0)
        yield* TestClock.adjust("10 seconds")
        assert.deepStrictEqual((yield* peer.seen).cancels, [])
      }).pipe(Effect.provide(memory))
    )

    it.effect("is told in the log, where the answer does not come within 5 seconds", () => {
      const lines: Array<string> = []
      const logger = Logger.make(({ message }) => lines.push(String(message)))
      return Effect.gen(function* () {
        const peer = yield* serve({ dialect, acts: [stuck] })
        yield* peer.disturb("message/send", Trouble.silent)
        const { fiber } = yield* start(question(peer.url, { dialect }))
        yield* peer.awaitSeen(({ sends }) => sends.length > 0)
        yield* Fiber.interrupt(fiber)
        yield* TestClock.adjust("4999 millis")
        assert.deepStrictEqual([yield* peer.requests.open, lines], [1, []])
        yield* TestClock.adjust("1 millis")
        assert.deepStrictEqual([yield* peer.requests.open, lines], [0, ["remote_task_not_cancelled"]])
        assert.deepStrictEqual((yield* peer.seen).cancels, [])
      }).pipe(Effect.provide([memory, Logger.layer([logger])]))
    })
  }
)

it.effect("a bindu peer that does not understand taskId gets task_id, once, and from then on at once", () =>
  Effect.gen(function* () {
    const peer = yield* serve({ dialect: "bindu", taskIdName: "task_id", acts: [stuck] })
    for (let round = 1; round <= 2; round++) {
      const { fiber } = yield* start(question(peer.url, { dialect: "bindu" }))
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.interrupt(fiber)
      const { cancels, refused } = yield* peer.awaitSeen(({ cancels }) => cancels.length === round)
      assert.strictEqual(cancels.length, round)
      assert.strictEqual(refused.length, 1)
    }
  }).pipe(Effect.provide(memory))
)

it.effect("a first cancel is spelled the second way too when the first spelling is not understood", () =>
  Effect.gen(function* () {
    const peer = yield* serve({ dialect: "bindu", taskIdName: "task_id", acts: [stuck] })
    const { fiber } = yield* start(question(peer.url, { dialect: "bindu" }))
    yield* peer.awaitSeen(({ sends }) => sends.length > 0)
    yield* Fiber.interrupt(fiber)
    yield* peer.cancelled
    assert.strictEqual((yield* peer.seen).refused.length, 1)
  }).pipe(Effect.provide(memory))
)
