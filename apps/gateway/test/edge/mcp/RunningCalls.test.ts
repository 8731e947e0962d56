import { toFrame } from "@bowline/runtime/unstable/store/EventRow"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { type Message, RunningCalls } from "../../../src/edge/mcp/RunningCalls.ts"

const step = (number: number) =>
  toFrame(number, "2026-01-02T03:04:05.678Z", { event: "step", data: { step: number, attempt: 1 } })

const progress = (progressToken: unknown, progress: number, message: string) => ({
  jsonrpc: "2.0",
  method: "notifications/progress",
  params: { progressToken, progress, message }
})

/** A call of a plan that the test ends, and what it has sent so far. */
const started = Effect.fnUntraced(function* (token: unknown) {
  const sent: Array<Message> = []
  const over = yield* Deferred.make<object>()
  let onFrame: Parameters<Parameters<RunningCalls["start"]>[0]["run"]>[0] = () => assert.fail("It does not run")
  const run = (look: typeof onFrame) => {
    onFrame = look
    return Deferred.await(over)
  }
  const calls = new RunningCalls()
  const fiber = yield* Effect.forkChild(
    calls.start({ id: 1, token, owner: "me", run }, (message) => void sent.push(message)),
    { startImmediately: true }
  )
  yield* Effect.yieldNow
  return { calls, fiber, sent, over, look: (frame: ReturnType<typeof step>) => onFrame(frame) }
})

describe("a call that takes its time", () => {
  it.effect("tells a client that wants to know what its plan does: at least each 10 s, at most 4 times a second", () =>
    Effect.gen(function* () {
      const { fiber, look, over, sent } = yield* started("t")
      look(step(1))
      yield* TestClock.adjust("100 millis")
      look(step(2))
      yield* TestClock.adjust("150 millis")
      look(step(3))
      look(step(3))
      assert.deepStrictEqual(sent, [progress("t", 1, "step 1"), progress("t", 2, "step 2")])
      yield* TestClock.adjust("250 millis")
      assert.deepStrictEqual(sent.slice(2), [progress("t", 3, "step 3")])
      yield* TestClock.adjust("19500 millis")
      assert.deepStrictEqual(sent.slice(3), [progress("t", 4, "step 3"), progress("t", 5, "step 3")])
      yield* Deferred.succeed(over, { content: [] })
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(sent.slice(5), [{ jsonrpc: "2.0", id: 1, result: { content: [] } }])
    })
  )

  it.effect("tells it in time, though somebody sets the clock back", () =>
    Effect.gen(function* () {
      const { look, sent } = yield* started("t")
      look(step(1))
      yield* TestClock.setTime(-3_600_000)
      yield* TestClock.adjust("250 millis")
      look(step(2))
      assert.deepStrictEqual(sent, [progress("t", 1, "step 1"), progress("t", 2, "step 2")])
    })
  )

  it.effect("sends a ping each 10 s to a client that does not want to know", () =>
    Effect.gen(function* () {
      const { look, sent } = yield* started(undefined)
      look(step(1))
      yield* TestClock.adjust("65 seconds")
      assert.deepStrictEqual(
        sent,
        Array.from({ length: 6 }, () => "ping")
      )
    })
  )

  it.effect("keeps little of what it says for a client that does not read, and its response in any case", () =>
    Effect.gen(function* () {
      const over = yield* Deferred.make<object>()
      const call = { id: 1, token: "t", owner: undefined, run: () => Deferred.await(over) }
      const messages = yield* new RunningCalls().stream([{ known: true }], [call])
      yield* TestClock.adjust("10 hours")
      yield* Deferred.succeed(over, { content: [] })
      const read = yield* Stream.runCollect(messages)
      assert.deepStrictEqual([read.length, read[0]], [101, { known: true }])
      assert.deepStrictEqual(read.at(-1), { jsonrpc: "2.0", id: 1, result: { content: [] } })
    })
  )

  it.effect("ends without a response when its owner cancels it, and nobody else can", () =>
    Effect.gen(function* () {
      const { calls, fiber, sent } = yield* started(undefined)
      yield* calls.cancel("somebody")
      assert.isUndefined(fiber.pollUnsafe())
      yield* calls.cancel("me")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(sent, [])
    })
  )

  it.effect("has an error for its client, and its cause in the log, when the gateway has a bug", () =>
    Effect.gen(function* () {
      const sent: Array<Message> = []
      const run = () => Effect.die(new Error("a bug"))
      yield* new RunningCalls().start(
        { id: 1, token: undefined, owner: undefined, run },
        (message) => void sent.push(message)
      )
      assert.deepNestedInclude(sent[0], { id: 1, "error.code": -32_603 })
      assert.notInclude(JSON.stringify(sent), "a bug")
    })
  )
})
