import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import * as ValidationThread from "../../src/tool/internal/ValidationThread.ts"

const workOf = (before: NodeJS.CpuUsage): number => {
  const { system, user } = process.threadCpuUsage(before)
  return (system + user) / 1_000
}

/** Keeps this thread busy for 500 ms of its own work, serving what has arrived in between. It ends before the longest wait for a check does. */
const keepBusy = async (): Promise<void> => {
  const before = process.threadCpuUsage()
  const end = performance.now() + 1_500
  for (let slice = 1; slice <= 10 && performance.now() < end; slice++) {
    while (workOf(before) < slice * 50 && performance.now() < end) JSON.stringify(process.versions)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

describe("ValidationThread", () => {
  it("does not count the work of the thread that serves requests as the work of a check", async () => {
    let isOver = false
    const stop = ValidationThread.watch(() => (isOver = true))
    await keepBusy()
    stop()
    assert.isFalse(isOver)
  })

  it.effect("ends a check whose thread does not start", () =>
    Effect.gen(function* () {
      const thread = yield* ValidationThread.make
      const question = { schema: "{}", input: "{}" }
      const check = yield* Effect.forkChild(Effect.flip(thread.check(question)), { startImmediately: true })
      // The thread needs real time to start, and gets none: the clock moves at once.
      yield* TestClock.adjust("15 seconds")
      assert.isDefined(check.pollUnsafe())
      assert.match((yield* Fiber.join(check)).reason, /did not start within 15 s/)
      assert.deepStrictEqual(yield* thread.check(question), { _tag: "Fits" })
    })
  )
})
