import { assert, describe, it } from "@effect/vitest"
import {
  becomes,
  completes,
  data,
  fails,
  file,
  produces,
  replies,
  says,
  stays,
  text,
  works
} from "@bowline/testing/peer/Act"
import { serve } from "@bowline/testing/peer/ScriptedPeer"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { memory, question, start } from "./call.ts"

describe.each(["a2a-1.0", "a2a-0.3", "bindu"] as const)("a call in %s", (dialect) => {
  it.effect("costs no wait when the peer answers at once", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, acts: [completes("At once")] })
      const { fiber } = yield* start(question(peer.url, { dialect }))
      assert.deepStrictEqual(yield* Fiber.join(fiber), { state: "completed", content: "At once", verified: "unknown" })
      assert.deepInclude(yield* peer.seen, { polls: [], cancels: [], refused: [] })
    }).pipe(Effect.provide(memory))
  )

  it.effect("carries its id as the idempotency key of its message, and of no other request", () =>
    Effect.gen(function* () {
      for (const streams of [false, true]) {
        const peer = yield* serve({ dialect, streams, acts: [works("1 second"), completes("Here")] })
        const { fiber } = yield* start(question(peer.url, { dialect }))
        yield* TestClock.adjust("2 seconds")
        yield* Fiber.join(fiber)
        const { sends, streams: streamed } = yield* peer.seen
        const [sent] = [...sends, ...streamed]
        assert.strictEqual(sent?.headers["idempotency-key"], sent?.message.messageId)
        const keyed = (yield* peer.requests.all).filter(({ headers }) => headers["idempotency-key"] !== undefined)
        assert.lengthOf(keyed, 1)
        assert.include(keyed[0]?.body, sent?.message.messageId)
      }
    }).pipe(Effect.provide(memory))
  )

  it.effect("reads a message as a completed task", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, acts: [replies("No task needed")] })
      const { fiber } = yield* start(question(peer.url, { dialect }))
      assert.deepStrictEqual(yield* Fiber.join(fiber), {
        state: "completed",
        content: "No task needed",
        verified: "unknown"
      })
    }).pipe(Effect.provide(memory))
  )

  it.effect("reports all that the peer says once, also what it said between two polls, and artifacts whole", () =>
    Effect.gen(function* () {
      const peer = yield* serve({
        dialect,
        acts: [
          says("Reading"),
          works("20 seconds"),
          says("Halfway"),
          produces("A first draft"),
          works("10 millis"),
          says("Nearly there"),
          works("20 seconds"),
          produces([text("See"), data({ n: 1 })]),
          produces([file({ name: "a.png", mimeType: "image/png", bytes: "AAAA" })]),
          completes("Done")
        ]
      })
      const { events, fiber } = yield* start(question(peer.url, { dialect }))
      yield* TestClock.adjust("1 minute")
      const { content, files, state } = yield* Fiber.join(fiber)
      const [accepted, ...told] = events
      assert.strictEqual(accepted?._tag, "Accepted")
      const picture = { mediaType: "image/png", name: "a.png", data: "AAAA" }
      assert.deepStrictEqual(told, [
        { _tag: "Progress", state: "working", message: "Reading" },
        { _tag: "Progress", state: "working", message: "Halfway" },
        { _tag: "Progress", state: "working", message: "Nearly there" },
        { _tag: "Artifact", content: "A first draft", mediaType: "text/plain", verified: "unknown" },
        {
          _tag: "Artifact",
          content: [
            { media_type: "text/plain", content: "See" },
            { media_type: "application/json", content: { n: 1 } }
          ],
          mediaType: "application/json",
          verified: "unknown"
        },
        { _tag: "Artifact", content: null, mediaType: "application/json", verified: "unknown", files: [picture] }
      ])
      assert.strictEqual(state, "completed")
      assert.strictEqual(content, 'Done\n\nA first draft\n\nSee\n{"n":1}')
      assert.deepStrictEqual(files, [picture])
    }).pipe(Effect.provide(memory))
  )

  it.effect("sends the ids, the message and the token as the dialect wants them", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, token: "s3cret", acts: [completes()] })
      const { events, fiber } = yield* start(question(peer.url, { dialect, auth: { type: "bearer", token: "s3cret" } }))
      yield* Fiber.join(fiber)
      const { refused, sends } = yield* peer.seen
      assert.deepStrictEqual(refused, [])
      const [send] = sends
      assert.deepStrictEqual(send?.message.parts, [{ kind: "text", text: "What is a bowline?" }])
      assert.deepStrictEqual(send?.message.metadata, { skill_id: "ask", bowline_hops: 1, bowline_via: ["gateway"] })
      assert.deepStrictEqual(events[0], {
        _tag: "Accepted",
        remoteTaskId: send?.taskId ?? null,
        remoteContextId: send?.contextId ?? null
      })
    }).pipe(Effect.provide(memory))
  )

  it.effect.each(["failed", "rejected", "canceled"] as const)("ends with the peer's own %s, and why", (state) =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, acts: [works("1 second"), becomes(state, "Because")] })
      const { fiber } = yield* start(question(peer.url, { dialect }))
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(yield* Fiber.join(fiber), { state, content: "Because", verified: "unknown" })
      assert.deepStrictEqual((yield* peer.seen).cancels, [])
    }).pipe(Effect.provide(memory))
  )

  it.effect.each(["input-required", "payment-required", "trust-verification-required"] as const)(
    "hands %s back with the message and its data, and leaves the task open",
    (state) =>
      Effect.gen(function* () {
        const peer = yield* serve({ dialect, acts: [becomes(state, "Your turn", { price: "1 EUR" })] })
        const { fiber } = yield* start(question(peer.url, { dialect }))
        assert.deepStrictEqual(yield* Fiber.join(fiber), {
          state,
          content: 'Your turn\n\n{"price":"1 EUR"}',
          verified: "unknown"
        })
        assert.deepStrictEqual((yield* peer.seen).cancels, [])
      }).pipe(Effect.provide(memory))
  )

  it.effect("keeps waiting in an unknown state", () =>
    Effect.gen(function* () {
      const peer = yield* serve({
        dialect,
        acts: [becomes("pondering"), stays("10 seconds"), fails("Gave up")]
      })
      const { events, fiber } = yield* start(question(peer.url, { dialect }))
      yield* TestClock.adjust("9 seconds")
      assert.deepStrictEqual(events.at(-1), { _tag: "Progress", state: "pondering" })
      yield* TestClock.adjust("6 seconds")
      assert.strictEqual((yield* Fiber.join(fiber)).state, "failed")
    }).pipe(Effect.provide(memory))
  )
})

it.effect("a task that failed without a message still has a result", () =>
  Effect.gen(function* () {
    const peer = yield* serve({ acts: [fails()] })
    const { fiber } = yield* start(question(peer.url))
    assert.strictEqual((yield* Fiber.join(fiber)).content, "The peer left the task as failed, without a word")
  }).pipe(Effect.provide(memory))
)

it.effect("the last thing that the agent said is the result when there is nothing else", () =>
  Effect.gen(function* () {
    const peer = yield* serve({ acts: [says("The answer is 42"), completes()] })
    const { fiber } = yield* start(question(peer.url))
    assert.strictEqual((yield* Fiber.join(fiber)).content, "The answer is 42")
  }).pipe(Effect.provide(memory))
)

it.effect("arguments of a schema are sent as data, but as text to a skill that takes nothing else", () =>
  Effect.gen(function* () {
    const call = { skill: { id: "sum", input_schema: { type: "object" } }, input: { a: 1 } }
    const partsSentTo = Effect.fnUntraced(function* (inputModes: ReadonlyArray<string>) {
      const peer = yield* serve({ card: { skills: [{ id: "sum", name: "Sum", inputModes }] }, acts: [completes()] })
      const { fiber } = yield* start(question(peer.url, { dialect: "auto" }, call))
      yield* Fiber.join(fiber)
      return (yield* peer.seen).sends[0]?.message.parts
    })
    assert.deepStrictEqual(yield* partsSentTo(["application/json"]), [{ kind: "data", data: { a: 1 } }])
    assert.deepStrictEqual(yield* partsSentTo(["text/plain"]), [{ kind: "text", text: '{"a":1}' }])
  }).pipe(Effect.provide(memory))
)
