import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import * as Given from "@bowline/testing/unstable/store/Given"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { makeSession, Memory } from "../../src/memory/internal/Memory.ts"
import { makeSessionStore } from "../../src/memory/internal/MemorySessions.ts"

describe("a sweep of the sessions in memory", () => {
  it.effect("looks at no more sessions than it deletes, and at each of those that stay once", () =>
    Effect.gen(function* () {
      const memory = new Memory(Infinity)
      const store = makeSessionStore(memory, Duration.hours(1))
      let looked = 0
      const plans = yield* Effect.replicateEffect(Given.newPlan(), 250)
      for (const plan of plans) {
        const session = makeSession(memory, plan)
        Object.defineProperty(session, "last_active_at", { get: () => (looked++, Given.at) })
        memory.add(session)
      }
      const expiry = Date.parse(Given.at) + Duration.toMillis(Duration.hours(1))
      assert.strictEqual(yield* store.sweep(fromMillis(expiry - 1)), false)
      assert.deepStrictEqual([looked, memory.sessions.size], [250, 250])
      looked = 0
      assert.strictEqual(yield* store.sweep(fromMillis(expiry)), true)
      assert.deepStrictEqual([looked, memory.sessions.size], [100, 150])
    })
  )
})
