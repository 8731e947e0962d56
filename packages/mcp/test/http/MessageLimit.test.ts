import { assert, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { limited } from "../../src/http/MessageLimit.ts"

const encoder = new TextEncoder()

/** When the last of these chunks has been read, in virtual milliseconds. */
const timeOf = Effect.fnUntraced(function* (chunks: ReadonlyArray<string>, isEvents: boolean) {
  const bytes = Stream.fromArray(chunks.map((chunk) => encoder.encode(chunk)))
  const reading = yield* Effect.forkChild(
    Effect.andThen(Stream.runDrain(limited(bytes, isEvents)), Clock.currentTimeMillis)
  )
  yield* TestClock.adjust("1 minute")
  return yield* Fiber.join(reading)
})

for (const [name, end] of Object.entries({ LF: "\n", CRLF: "\r\n", CR: "\r" })) {
  it.effect(`reads 1,000 events a second, and as many at once, with ${name} at the ends of lines`, () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(1_000_000)
      const events = `data: {}${end}${end}`.repeat(1_000)
      assert.strictEqual(yield* timeOf([events], true), 1_000_000)
      yield* TestClock.setTime(2_000_000)
      assert.strictEqual(yield* timeOf([events, events, events], true), 2_002_000)
    })
  )
}

it.effect("reads an answer that is no stream of events as fast as it comes", () =>
  Effect.gen(function* () {
    yield* TestClock.setTime(1_000_000)
    assert.strictEqual(yield* timeOf(["{\n\n}".repeat(10_000)], false), 1_000_000)
  })
)
