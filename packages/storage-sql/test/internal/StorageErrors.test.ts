import { assert, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber } from "effect"
import { ConnectionError, SqlError, SqlSyntaxError, UniqueViolation, UnknownError } from "effect/sql/SqlError"
import { TestClock } from "effect/testing"
import { storageError, unhurried } from "../../src/internal/StorageErrors.ts"

const unknown = (cause: unknown) => new SqlError({ reason: new UnknownError({ cause }) })

const cases = [
  ["unavailable", new SqlError({ reason: new ConnectionError({ cause: "reset" }) })],
  ["unavailable", unknown({ code: "57P01" })],
  ["unavailable", unknown({ code: "57P03" })],
  ["unavailable", unknown({ code: "53300" })],
  ["unavailable", unknown({ code: "25006" })],
  ["rejected", unknown({ code: "22021" })],
  ["rejected", unknown("no code")],
  ["rejected", new SqlError({ reason: new SqlSyntaxError({ cause: "near" }) })],
  ["rejected", new SqlError({ reason: new UniqueViolation({ cause: "twice", constraint: "plans_pkey" }) })]
] as const

it.effect("says of each failure of the database whether it passes", () =>
  Effect.gen(function* () {
    for (const [expected, error] of cases) {
      for (const failing of [Effect.fail(error), Effect.die(error)]) {
        const { _tag, reason } = yield* Effect.flip(storageError(failing))
        assert.deepStrictEqual([_tag, reason._tag, reason.cause], ["StorageError", expected, error])
      }
    }
  })
)

it.effect("leaves everything else as it is", () =>
  Effect.gen(function* () {
    assert.strictEqual(yield* Effect.flip(storageError(Effect.fail("busy"))), "busy")
    assert.deepStrictEqual(yield* Effect.exit(storageError(Effect.die("bug"))), Exit.die("bug"))
    const exit = yield* Effect.exit(storageError(Effect.interrupt))
    assert(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
  })
)

it.effect(
  "takes a statement that is not answered for 10 s for a database that is away, and does not wait for its end",
  () =>
    Effect.gen(function* () {
      const silent = Effect.never.pipe(Effect.onInterrupt(() => Effect.never))
      const asking = yield* Effect.forkChild(Effect.flip(storageError(silent)), { startImmediately: true })
      const waiting = yield* Effect.forkChild(unhurried(Effect.never), { startImmediately: true })
      yield* TestClock.adjust("9999 millis")
      assert.isUndefined(asking.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.strictEqual((yield* Fiber.join(asking)).reason._tag, "unavailable")
      yield* TestClock.adjust("1 hour")
      assert.isUndefined(waiting.pollUnsafe())
    })
)
