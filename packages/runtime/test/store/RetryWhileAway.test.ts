import { Rejected, StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { retryWhileAway } from "../../src/store/RetryWhileAway.ts"

const away = Effect.fail(new StorageError({ reason: new Unavailable({ cause: "down" }) }))

/** A store that is away until this time, and says so only after a while. */
const storeAway = (until: number, silentFor: number) => {
  let tries = 0
  const ask = Effect.gen(function* () {
    tries++
    yield* Effect.sleep(silentFor)
    return (yield* Clock.currentTimeMillis) < until ? yield* away : "rows"
  })
  return { ask, tries: () => tries }
}

describe("retryWhileAway", () => {
  it.effect("asks a database that is away every 500 ms until it is back", () =>
    Effect.gen(function* () {
      const { ask, tries } = storeAway(20_000, 0)
      const asking = yield* Effect.forkChild(retryWhileAway(ask))
      yield* TestClock.adjust("20 seconds")
      assert.strictEqual(yield* Fiber.join(asking), "rows")
      assert.strictEqual(tries(), 41)
    })
  )

  for (const silentFor of [0, 10_000]) {
    it.effect(`waits 30 s and no longer, when each try takes ${silentFor} ms`, () =>
      Effect.gen(function* () {
        const asking = yield* Effect.forkChild(Effect.flip(retryWhileAway(storeAway(Infinity, silentFor).ask)))
        yield* TestClock.adjust("29999 millis")
        assert.isUndefined(asking.pollUnsafe())
        yield* TestClock.adjust("1 millis")
        assert.strictEqual((yield* Fiber.join(asking)).reason._tag, "unavailable")
      })
    )
  }

  it.effect("can be interrupted while it waits", () =>
    Effect.gen(function* () {
      const asking = yield* Effect.forkChild(retryWhileAway(storeAway(Infinity, 0).ask))
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.interrupt(asking)
    })
  )

  it.effect("does not ask again what the database refuses", () =>
    Effect.gen(function* () {
      let tries = 0
      const refused = new StorageError({ reason: new Rejected({ cause: "no such column" }) })
      const ask = Effect.suspend(() => (tries++, Effect.fail(refused)))
      assert.strictEqual(yield* Effect.flip(retryWhileAway(ask)), refused)
      assert.strictEqual(tries, 1)
    })
  )
})
