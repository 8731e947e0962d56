import { assert, it } from "@effect/vitest"
import { Cause, Effect, Exit } from "effect"
import { ConnectionError, SqlError, SqlSyntaxError, UniqueViolation, UnknownError } from "effect/sql/SqlError"
import { translateErrors } from "../../src/internal/StorageErrors.ts"

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

it.effect("says of each failure of the database whether it is temporary", () =>
  Effect.gen(function* () {
    for (const [expected, error] of cases) {
      for (const failing of [Effect.fail(error), Effect.die(error)]) {
        const { _tag, reason } = yield* Effect.flip(translateErrors(failing))
        assert.deepStrictEqual([_tag, reason._tag, reason.cause], ["StorageError", expected, error])
      }
    }
  })
)

it.effect("leaves everything else as it is", () =>
  Effect.gen(function* () {
    assert.strictEqual(yield* Effect.flip(translateErrors(Effect.fail("busy"))), "busy")
    assert.deepStrictEqual(yield* Effect.exit(translateErrors(Effect.die("bug"))), Exit.die("bug"))
    const exit = yield* Effect.exit(translateErrors(Effect.interrupt))
    assert(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
  })
)
