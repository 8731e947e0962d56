import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as Attempt from "../../src/provider/Attempt.ts"
import type { ProviderPart } from "../../src/provider/Provider.ts"

const timers = { firstToken: Duration.seconds(120), idle: Duration.seconds(60), total: Duration.seconds(1_800) }

const say = (delta: string): ProviderPart => ({ _tag: "TextDelta", delta })
const after = (seconds: number, part: ProviderPart) => Stream.fromEffect(Effect.as(Effect.sleep(seconds * 1_000), part))
const finished: ProviderPart = { _tag: "Finished", reason: "stop", inferred: false }
const silence: Stream.Stream<ProviderPart> = Stream.never

/** When, in seconds, and how the attempt ends. */
const outcome = Effect.fnUntraced(function* (
  attempt: Stream.Stream<ProviderPart>,
  onParts: () => Effect.Effect<void> = () => Effect.void
) {
  const fiber = yield* Effect.forkChild(Effect.exit(Attempt.run(attempt, timers, onParts, () => Effect.void)), {
    startImmediately: true
  })
  for (let seconds = 0; seconds <= 2_000; seconds++) {
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) {
      const result = yield* Effect.flatten(Fiber.join(fiber)).pipe(
        Effect.as("finished"),
        Effect.catchTag("ProviderError", ({ reason }) => Effect.succeed(reason._tag))
      )
      return [seconds, result]
    }
    yield* TestClock.adjust("1 second")
  }
  return yield* Fiber.interrupt(fiber)
})

describe("Attempt", () => {
  it.effect("fails without content 120 s after the request, whatever else comes", () =>
    Effect.gen(function* () {
      const empty = Stream.concat(after(100, say("")), silence)
      assert.deepStrictEqual(yield* outcome(silence), [120, "first_token_timeout"])
      assert.deepStrictEqual(yield* outcome(empty), [120, "first_token_timeout"])
    })
  )

  it.effect("reports how long nothing was heard when it is interrupted, and does not count a comment as content", () =>
    Effect.gen(function* () {
      const comments = Stream.forever(after(10, { _tag: "Heard" }))
      assert.deepStrictEqual(yield* outcome(comments), [120, "first_token_timeout"])
      const silences: Array<number> = []
      for (const attempt of [comments, silence]) {
        const run = Attempt.run(
          attempt,
          timers,
          () => Effect.void,
          (ms) => Effect.sync(() => void silences.push(ms))
        )
        const fiber = yield* Effect.forkChild(run, { startImmediately: true })
        yield* TestClock.adjust("105 seconds")
        yield* Fiber.interrupt(fiber)
      }
      assert.deepStrictEqual(silences, [5_000, 105_000])
    })
  )

  it.effect("fails after 60 s of silence after content, which includes reasoning and fragments of calls", () =>
    Effect.gen(function* () {
      const parts: ReadonlyArray<ProviderPart> = [
        say("a"),
        { _tag: "ReasoningDelta", delta: "hm" },
        { _tag: "ToolCallFragment", call: 0 }
      ]
      const content = Stream.flatMap(Stream.fromIterable(parts), (part) => after(50, part))
      assert.deepStrictEqual(yield* outcome(Stream.concat(content, silence)), [210, "idle_timeout"])
    })
  )

  it.effect("counts the silence after the first content from there, however early that comes", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* outcome(Stream.concat(after(10, say("a")), silence)), [70, "idle_timeout"])
    })
  )

  it.effect("fails after 1,800 s in all, though content keeps coming", () =>
    Effect.gen(function* () {
      const endless = Stream.forever(after(10, say("a")))
      assert.deepStrictEqual(yield* outcome(endless), [1_800, "attempt_timeout"])
    })
  )

  it.effect("does not take a slow consumer for a silent provider", () =>
    Effect.gen(function* () {
      const attempt = Stream.concat(
        Stream.succeed(say("a")),
        Stream.concat(after(50, say("b")), Stream.succeed(finished))
      )
      assert.deepStrictEqual(yield* outcome(attempt, () => Effect.sleep("90 seconds")), [320, "finished"])
    })
  )
})
