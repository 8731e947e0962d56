import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { makePaced } from "../../src/file/SqlFileStore.ts"

describe("chunks of files", () => {
  it.effect("are written one after the other, with a rest behind each for as long as it took, a second at most", () =>
    Effect.gen(function* () {
      const paced = yield* makePaced
      const begun: Array<number> = []
      const answers = yield* Effect.replicateEffect(Deferred.make<void>(), 3)
      const writes = yield* Effect.forEach(answers, (answer, index) =>
        Effect.forkChild(
          paced(
            Effect.andThen(
              Effect.sync(() => begun.push(index)),
              Deferred.await(answer)
            )
          ),
          {
            startImmediately: true
          }
        )
      )
      const answerAfter = Effect.fnUntraced(function* (index: number, ms: number) {
        yield* TestClock.adjust(ms)
        yield* Deferred.succeed(answers[index] ?? assert.fail(), undefined)
      })
      yield* answerAfter(0, 30)
      yield* TestClock.adjust(29)
      assert.deepStrictEqual(begun, [0])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(begun, [0, 1])
      yield* answerAfter(1, 5_000)
      yield* TestClock.adjust(999)
      assert.deepStrictEqual(begun, [0, 1])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(begun, [0, 1, 2])
      // An upload that is cut while its chunk is written, or rests, lets the next one in.
      yield* Fiber.interruptAll(writes)
      assert.strictEqual(yield* paced(Effect.succeed("written")), "written")
    })
  )
})
