import { assert, describe, it } from "@effect/vitest"
import {
  appends,
  becomes,
  completes,
  fails,
  produces,
  replies,
  says,
  stays,
  stuck,
  works
} from "@bowline/testing/peer/Act"
import { serve } from "@bowline/testing/peer/ScriptedPeer"
import * as Trouble from "@bowline/testing/unstable/peer/Trouble"
import { Effect, Fiber, Logger } from "effect"
import { TestClock } from "effect/testing"
import { memory, question, reasonOf, start } from "./call.ts"

const story = [
  says("Reading"),
  works("10 seconds"),
  says("Writing"),
  works("10 seconds"),
  produces("A"),
  completes("Done")
]

const told = (events: ReadonlyArray<object>) =>
  events.map((event) => ("message" in event ? event.message : "content" in event ? event.content : undefined))

describe.each(["a2a-1.0", "a2a-0.3", "bindu"] as const)("a task that is streamed in %s", (dialect) => {
  const ask = (url: string, meanwhile?: () => Effect.Effect<void>) =>
    start(question(url, { dialect, streaming: true }), meanwhile)

  it.effect("is reported as it happens, and never polled", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, streams: true, acts: story })
      const { events, fiber } = yield* ask(peer.url)
      yield* TestClock.adjust("1 second")
      assert.include(told(events), "Reading")
      assert.notInclude(told(events), "Writing")
      yield* TestClock.adjust("10 seconds")
      assert.include(told(events), "Writing")
      yield* TestClock.adjust("10 seconds")
      assert.deepInclude(yield* Fiber.join(fiber), { state: "completed", content: "Done\n\nA" })
      assert.deepInclude(yield* peer.seen, { sends: [], polls: [], subscriptions: [], cancels: [], refused: [] })
      assert.deepStrictEqual(
        told(events).filter((words) => words !== undefined),
        ["Reading", "Writing", "A"]
      )
    }).pipe(Effect.provide(memory))
  )

  it.effect("shows an artifact as soon as the peer says that it is whole, and never twice", () =>
    Effect.gen(function* () {
      const acts = [produces("A"), works("5 seconds"), appends("B"), works("5 seconds"), produces("C"), completes()]
      const peer = yield* serve({ dialect, streams: true, acts })
      const { events, fiber } = yield* ask(peer.url)
      const shown = () => events.flatMap((event) => (event._tag === "Artifact" ? [event.content] : []))
      yield* TestClock.adjust("4 seconds")
      assert.deepStrictEqual(shown(), [])
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(shown(), ["AB"])
      yield* TestClock.adjust("5 seconds")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(shown(), ["AB", "C"])
    }).pipe(Effect.provide(memory))
  )

  it.effect("costs no wait when it is over at once, or is a message", () =>
    Effect.gen(function* () {
      for (const acts of [[completes("At once")], [replies("At once")]]) {
        const peer = yield* serve({ dialect, streams: true, acts })
        const { fiber } = yield* ask(peer.url)
        assert.deepInclude(yield* Fiber.join(fiber), { state: "completed", content: "At once" })
      }
    }).pipe(Effect.provide(memory))
  )

  it.effect.each([
    ["closed", Trouble.cutsBehind(2)],
    ["reset", Trouble.resetsBehind(2)],
    ["silent for 30 seconds", Trouble.stallsBehind(2)]
  ] as const)(
    "is subscribed to again when its stream is %s, with nothing told twice and nothing missing",
    ([, trouble]) =>
      Effect.gen(function* () {
        const peer = yield* serve({
          dialect,
          streams: true,
          acts: [
            says("Reading"),
            works("20 seconds"),
            says("Writing"),
            works("30 seconds"),
            produces("A"),
            completes("Done")
          ]
        })
        yield* peer.disturb("message/stream", trouble)
        const { events, fiber } = yield* ask(peer.url)
        yield* TestClock.adjust("2 minutes")
        assert.deepInclude(yield* Fiber.join(fiber), { state: "completed", content: "Done\n\nA" })
        const { cancels, polls, refused, streams, subscriptions } = yield* peer.seen
        assert.deepStrictEqual([streams.length, subscriptions.length, cancels, refused], [1, 1, [], []])
        assert.strictEqual(polls.length, 1)
        assert.deepStrictEqual(
          told(events).filter((words) => words !== undefined),
          ["Reading", "Writing", "A"]
        )
        assert.strictEqual(yield* peer.requests.open, 0)
      }).pipe(Effect.provide(memory))
  )

  it.effect("is polled when its stream is lost, and the peer refuses another one", () =>
    Effect.gen(function* () {
      for (const trouble of [Trouble.answers(404), Trouble.silent, Trouble.stallsBehind(0), Trouble.breaks("reset")]) {
        const peer = yield* serve({ dialect, streams: true, acts: story })
        yield* peer.disturb("message/stream", Trouble.resetsBehind(1))
        yield* peer.disturb("tasks/resubscribe", trouble)
        const { events, fiber } = yield* ask(peer.url)
        yield* TestClock.adjust("12 seconds")
        assert.strictEqual(yield* peer.requests.open, 0)
        yield* TestClock.adjust("1 minute")
        assert.deepInclude(yield* Fiber.join(fiber), { state: "completed", content: "Done\n\nA" })
        assert.isAbove((yield* peer.seen).polls.length, 1)
        assert.strictEqual((yield* peer.seen).streams.length, 1)
        assert.deepStrictEqual(
          told(events).filter((words) => words !== undefined),
          ["Reading", "Writing", "A"]
        )
      }
    }).pipe(Effect.provide(memory))
  )

  it.effect("may take its time for the first event", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, streams: true, acts: [completes("Done")] })
      yield* peer.disturb("message/stream", Trouble.stallsBehind(0))
      const { fiber } = yield* ask(peer.url)
      yield* TestClock.adjust("5 minutes")
      assert.isUndefined(fiber.pollUnsafe())
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(yield* peer.requests.open, 0)
    }).pipe(Effect.provide([memory, Logger.layer([])]))
  )

  it.effect("is too large when its messages, its artifacts or their pieces are without end", () =>
    Effect.gen(function* () {
      const message = "m".repeat(2_000_000)
      for (const acts of [
        Array.from({ length: 2_000 }, (_, index) => produces(`${index}`)),
        [produces("A"), ...Array.from({ length: 5 }, () => appends(message))]
      ]) {
        const peer = yield* serve({ dialect, streams: true, acts: [...acts, stuck] })
        const started = yield* ask(peer.url)
        yield* TestClock.adjust("1 minute")
        assert.deepInclude(yield* reasonOf(started), { _tag: "response_too_large" })
        yield* peer.cancelled
      }
    }).pipe(Effect.provide(memory))
  )

  it.effect("waits for somebody to log in for 60 seconds at most, however often its stream ends", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, streams: true, acts: [becomes("auth-required", "Log in"), stays("1 hour")] })
      yield* peer.disturb("message/stream", Trouble.cutsBehind(2))
      yield* peer.disturb("tasks/resubscribe", ...Array.from({ length: 100 }, () => Trouble.cutsBehind(1)))
      const { fiber } = yield* ask(peer.url)
      yield* TestClock.adjust("70 seconds")
      assert.deepInclude(yield* Fiber.join(fiber), { state: "auth-required" })
    }).pipe(Effect.provide(memory))
  )

  it.effect("is not subscribed to in a hot loop when the peer closes every stream at once", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, streams: true, acts: [stuck] })
      yield* peer.disturb("message/stream", Trouble.cutsBehind(1))
      yield* peer.disturb("tasks/resubscribe", ...Array.from({ length: 100 }, () => Trouble.cutsBehind(1)))
      const { fiber } = yield* ask(peer.url)
      yield* TestClock.adjust("60 seconds")
      assert.isBelow((yield* peer.seen).subscriptions.length, 60)
      yield* Fiber.interrupt(fiber)
      yield* peer.cancelled
    }).pipe(Effect.provide(memory))
  )

  it.effect("is sent without a stream to a peer that turns out not to stream", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, acts: [works("1 second"), completes("Done")] })
      const { fiber } = yield* ask(peer.url)
      yield* TestClock.adjust("2 seconds")
      assert.deepInclude(yield* Fiber.join(fiber), { state: "completed", content: "Done" })
      assert.strictEqual((yield* peer.seen).sends.length, 1)
    }).pipe(Effect.provide(memory))
  )

  it.effect("is never sent twice when the answer may have been lost", () =>
    Effect.gen(function* () {
      for (const trouble of [Trouble.breaks("reset"), Trouble.cutsBehind(0), Trouble.answers(503)]) {
        const peer = yield* serve({ dialect, streams: true, acts: story })
        yield* peer.disturb("message/stream", trouble)
        const reason = yield* reasonOf(yield* ask(peer.url))
        assert.include(["unreachable", "http"], reason._tag)
        const { sends, streams } = yield* peer.seen
        assert.deepStrictEqual([sends.length, streams.length], [0, 1])
      }
    }).pipe(Effect.provide(memory))
  )

  it.effect("is cancelled once, and its socket closed at once, when the call is interrupted in mid-stream", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, streams: true, acts: [says("Reading"), stuck] })
      const { fiber } = yield* ask(peer.url)
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(yield* peer.requests.open, 1)
      yield* Fiber.interrupt(fiber)
      const { streams } = yield* peer.seen
      assert.strictEqual(yield* peer.cancelled, streams[0]?.taskId)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* peer.requests.open, 0)
      assert.deepInclude(yield* peer.seen, { cancels: [streams[0]?.taskId ?? ""], polls: [], subscriptions: [] })
    }).pipe(Effect.provide(memory))
  )

  it.effect("ends as the peer says that it ended, and is handed back where it asks for something", () =>
    Effect.gen(function* () {
      for (const [act, state] of [
        [fails("No"), "failed"],
        [becomes("rejected", "No"), "rejected"],
        [becomes("input-required", "No"), "input-required"],
        [becomes("payment-required", "No"), "payment-required"]
      ] as const) {
        const peer = yield* serve({ dialect, streams: true, acts: [works("1 second"), act] })
        const { fiber } = yield* ask(peer.url)
        yield* TestClock.adjust("1 second")
        assert.deepInclude(yield* Fiber.join(fiber), { state, content: "No" })
        assert.deepStrictEqual((yield* peer.seen).cancels, [])
      }
    }).pipe(Effect.provide(memory))
  )

  it.effect("waits for 60 seconds when somebody has to log in", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, streams: true, acts: [becomes("auth-required", "Log in"), stays("1 hour")] })
      const { fiber } = yield* ask(peer.url)
      yield* TestClock.adjust("59 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("2 seconds")
      assert.deepInclude(yield* Fiber.join(fiber), { state: "auth-required", content: "Log in" })
    }).pipe(Effect.provide(memory))
  )
})
