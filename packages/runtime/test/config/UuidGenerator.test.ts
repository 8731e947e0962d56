import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { UuidGenerator } from "../../src/config/UuidGenerator.ts"

describe("the ids that are made", () => {
  it.effect("are UUIDs of version 7, each of which stands behind those before it", () =>
    Effect.gen(function* () {
      const uuid = yield* UuidGenerator
      const made = Array.from({ length: 10_000 }, () => uuid())
      for (const id of made) assert.match(id, /^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
      assert.deepStrictEqual(made, made.toSorted())
      assert.strictEqual(new Set(made).size, made.length)
    })
  )
})
