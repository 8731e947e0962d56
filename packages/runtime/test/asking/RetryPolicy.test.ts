import * as Reason from "@bowline/domain/provider/ProviderError"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Random, Schedule } from "effect"
import { TestClock } from "effect/testing"
import { isWorth, waits } from "../../src/asking/RetryPolicy.ts"

const message = ""
const limited = (retryAfterMs?: number) =>
  new Reason.RateLimited({ message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) })
const server = new Reason.ServerError({ message })
const silent = new Reason.IdleTimeout({ message })
const late = new Reason.FirstTokenTimeout({ message })
const rejected = new Reason.HistoryRejected({ message })
const unparsed = new Reason.ToolJson({ message })

const schedule = waits({ maxRetries: 3, baseMs: 1_000 })

/** Draws that are all alike. */
const drawing = (random: number) =>
  Effect.provideService(Random.Random, { nextIntUnsafe: () => 0, nextDoubleUnsafe: () => random })

/** When the attempts are made of a step that fails for these reasons, one after the other, in milliseconds. */
const attemptsOf = Effect.fnUntraced(function* (...reasons: ReadonlyArray<Reason.ProviderErrorReason>) {
  const began = yield* Clock.currentTimeMillis
  const at: Array<number> = []
  const attempt = Effect.flatMap(Clock.currentTimeMillis, (now) => {
    at.push(now - began)
    return Effect.fail(reasons[at.length - 1] ?? server)
  })
  const step = yield* Effect.forkChild(Effect.exit(Effect.retry(attempt, schedule)))
  yield* TestClock.adjust("5 minutes")
  yield* Fiber.join(step)
  return at
})

const worth = (reasons: ReadonlyArray<Reason.ProviderErrorReason>, waitMs = 1_000, timeLeftMs = 1e9) =>
  isWorth(reasons, waitMs, timeLeftMs)

describe("RetryPolicy", () => {
  it.effect("waits between half of a bound and all of it, and doubles the bound, three times", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* drawing(0)(attemptsOf()), [0, 500, 1_500, 3_500])
      assert.deepStrictEqual(yield* drawing(0.999_999)(attemptsOf()), [0, 1_000, 3_000, 7_000])
    })
  )

  it.effect("waits for as long as the provider asks, and up to a tenth more, instead of a wait of its own", () =>
    Effect.gen(function* () {
      const failures = [server, limited(30_000), limited()]
      assert.deepStrictEqual(yield* drawing(0)(attemptsOf(...failures)), [0, 500, 30_500, 32_500])
      assert.deepStrictEqual(yield* drawing(0.999_999)(attemptsOf(...failures)), [0, 1_000, 34_000, 38_000])
    })
  )

  it.effect("makes no retry at all where none is configured", () =>
    Effect.gen(function* () {
      const none = waits({ maxRetries: 0, baseMs: 1_000 })
      let attempts = 0
      const attempt = Effect.suspend(() => {
        attempts++
        return Effect.fail<Reason.ProviderErrorReason>(server)
      })
      yield* Effect.exit(Effect.retry(attempt, none))
      assert.strictEqual(attempts, 1)
      assert.isTrue(Schedule.isSchedule(none))
    })
  )

  it("does not begin a wait of over a minute that the provider asks for, or one that the plan's deadline would cut", () => {
    assert.isTrue(worth([limited(60_000)], 66_000))
    assert.isFalse(worth([limited(60_001)], 60_001))
    assert.isTrue(worth([limited(5_000)], 5_000, 5_000))
    assert.isFalse(worth([limited(5_000)], 5_000, 4_999))
    assert.isFalse(worth([server], 500, 499))
  })

  it("tries again only where that can help, and after silence, a repaired history or a bad call only once", () => {
    const never = [
      new Reason.Auth({ message }),
      new Reason.Billing({ message }),
      new Reason.BadRequest({ message }),
      new Reason.ContextOverflow({ message }),
      new Reason.ModelUnavailable({ message }),
      new Reason.AttemptTimeout({ message }),
      new Reason.Unknown({ message })
    ]
    for (const reason of never) assert.isFalse(worth([reason]), reason._tag)
    for (const reason of [silent, late, rejected, unparsed]) {
      assert.isTrue(worth([reason]), reason._tag)
      assert.isTrue(worth([server, reason]), reason._tag)
      assert.isFalse(worth([reason, server, reason]), reason._tag)
    }
    assert.isFalse(worth([silent, late]))
  })
})
