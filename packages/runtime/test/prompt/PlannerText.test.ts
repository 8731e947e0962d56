import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as PlannerText from "../../src/prompt/PlannerText.ts"
import * as TextFile from "../../src/prompt/TextFile.ts"
import * as Interrupted from "../process/Interrupted.ts"
import { folders, reports } from "./TextFolder.ts"

describe("the planner's instructions", () => {
  it("that are built in stand in the reference, to begin one's own with", () => {
    const page = readFileSync(join(import.meta.dirname, "../../../../docs/reference/prompt.md"), "utf8")
    assert.include(page, `\n\`\`\`markdown\n${PlannerText.builtIn}\`\`\`\n`)
  })

  it.live(
    "are those of the file when a plan begins; a file that cannot be used is reported, and the old ones stay",
    () =>
      Effect.gen(function* () {
        const path = join((yield* folders).inside, "planner.md")
        writeFileSync(path, "First.")
        const { layer, lines } = reports()
        const context = yield* Layer.build(PlannerText.layerFile(path))
        const text = Effect.provide(Context.get(context, PlannerText.PlannerText), layer)
        assert.strictEqual(yield* text, "First.")
        writeFileSync(path, "Second.")
        assert.strictEqual(yield* text, "Second.")
        const faults: ReadonlyArray<readonly [reason: string, spoil: () => void]> = [
          ["It is empty", () => writeFileSync(path, " \n")],
          ["It is not UTF-8", () => writeFileSync(path, Buffer.from([0x80]))],
          ["It has more than 262144 bytes", () => writeFileSync(path, "x".repeat(262_145))],
          ["It does not exist", () => rmSync(path)]
        ]
        for (const [reason, spoil] of faults) {
          spoil()
          assert.strictEqual(yield* text, "Second.")
          yield* text
          assert.deepStrictEqual(lines.splice(0), [`planner_file_unusable: ${reason}`])
        }
        writeFileSync(path, "Third.")
        assert.strictEqual(yield* text, "Third.")
      }).pipe(Effect.scoped)
  )

  it.live("fail the start of an app that names a file without them", () =>
    Effect.gen(function* () {
      const path = join((yield* folders).inside, "planner.md")
      writeFileSync(path, "")
      const { message } = yield* Effect.flip(Layer.build(PlannerText.layerFile(path)))
      assert.strictEqual(message, `${path}: It is empty`)
    }).pipe(Effect.scoped)
  )
})

describe("a check of files", () => {
  it.effect("runs once for all that wait, of whom none waits when it has taken a second", () =>
    Effect.gen(function* () {
      let checks = 0
      const stuck = Effect.andThen(
        Effect.sync(() => checks++),
        Effect.never
      )
      const current = yield* TextFile.refreshed(stuck, () => "known")
      const waiting = yield* Effect.forkChild(Effect.all([current, current], { concurrency: 2 }))
      yield* TestClock.adjust("999 millis")
      assert.isUndefined(waiting.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* Fiber.join(waiting), ["known", "known"])
      assert.strictEqual(yield* current, "known")
      assert.strictEqual(checks, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("leaves nobody waiting, wherever somebody who asked was interrupted, and when its scope is closed", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const current = yield* Scope.provide(
        TextFile.refreshed(Effect.void, () => "known"),
        scope
      )
      const isAnswered = Effect.gen(function* () {
        const asking = yield* Effect.forkChild(current)
        yield* TestClock.adjust("1 second")
        return asking.pollUnsafe() !== undefined
      })
      yield* Interrupted.atEachStep(current)
      assert.isTrue(yield* isAnswered)
      yield* Scope.close(scope, Exit.void)
      assert.isTrue(yield* isAnswered)
      assert.isTrue(yield* isAnswered)
    })
  )
})
