import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import { TestClock } from "effect/testing"
import * as Alarm from "../../src/process/Alarm.ts"

describe("an alarm", () => {
  it.effect("rings once its time has come, on the clock of its context, and not when it was cancelled before", () =>
    Effect.gen(function* () {
      const context = yield* Effect.context()
      const rung: Array<string> = []
      const cancel = Alarm.set(1_000, () => rung.push("one"), context)
      const cancelOther = Alarm.set(1_000, () => rung.push("other"), context)
      yield* TestClock.adjust("999 millis")
      assert.deepStrictEqual(rung, [])
      cancelOther()
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(rung, ["one"])
      cancel()
    })
  )

  it.effect("may be cancelled while it rings", () =>
    Effect.gen(function* () {
      const rung: Array<string> = []
      const cancel: () => void = Alarm.set(
        1_000,
        () => {
          cancel()
          rung.push("one")
        },
        yield* Effect.context()
      )
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(rung, ["one"])
    })
  )

  it.effect("logs what its ring throws", () => {
    const lines: Array<unknown> = []
    const logger = Logger.make(({ message }) => void lines.push(message))
    return Effect.gen(function* () {
      Alarm.set(
        1_000,
        () => {
          throw new Error("A bug")
        },
        yield* Effect.context()
      )
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(lines, [["alarm_failed", new Error("A bug")]])
    }).pipe(Effect.provide(Logger.layer([logger])))
  })
})
