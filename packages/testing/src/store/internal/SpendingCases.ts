import type { PlanChange } from "@bowline/runtime/unstable/store/PlanStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect } from "effect"
import assert from "node:assert/strict"
import * as Given from "../Given.ts"
import type { StoreCase } from "../StoreCase.ts"

const today = "2026-01-02"

/** A progress that is charged to a day, so many times as far as `Given.progress`. */
const progress = (times: number, day: string = today) => {
  const { input_tokens, output_tokens } = Given.progress.usage
  return {
    ...Given.progress,
    tool_calls: times * Given.progress.tool_calls,
    usage: { ...Given.progress.usage, input_tokens: times * input_tokens, output_tokens: times * output_tokens },
    day
  }
}

const progressed = (times: number, day?: string): PlanChange => ({
  _tag: "Progressed",
  stage: "provider",
  progress: progress(times, day)
})

/** What was charged to the owner of a plan on a day, in multiples of `Given.progress`. */
const spent = Effect.fnUntraced(function* ({ plan }: Given.Stored, day: string = today) {
  const { tokens, tool_calls } = yield* (yield* PlanStore).spent(plan.caller, day)
  return [tokens / 18, tool_calls / 3]
})

export const spendingCases: ReadonlyArray<StoreCase> = [
  {
    title: "charges a day with what is new in the progress of a plan, however often it is written",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      assert.deepEqual(yield* spent(held), [0, 0])
      for (const changes of [[progressed(1)], [progressed(1)], [progressed(2), progressed(3)], [progressed(3)]]) {
        yield* Given.write(held, changes)
      }
      const store = yield* PlanStore
      const again = store.commit([Given.commitOf(held, [progressed(4)])])
      yield* Effect.all([again, again, again, again], { concurrency: "unbounded" })
      assert.deepEqual(yield* spent(held), [4, 4])
      const message = yield* Given.appended("hello")
      yield* Given.write(held, [message, progressed(5)], [Given.row(2, "step")])
      yield* Given.write(held, [message, progressed(5)], [Given.row(2, "step")])
      yield* Given.write(held, [progressed(6, "2026-01-03")])
      assert.deepEqual(yield* spent(held), [5, 5])
      yield* Given.write(held, [
        { _tag: "Settled", outcome: Given.completed, progress: progress(7, "2026-01-03"), at: Given.later }
      ])
      assert.deepEqual(yield* spent(held, "2026-01-03"), [2, 2])
      const { day: _, model: __, ...counts } = progress(7)
      const { cost_usd, retries, steps, tool_calls, usage } = yield* Given.get(held)
      assert.deepEqual({ cost_usd, retries, steps, tool_calls, usage }, counts)
      assert(!("day" in (yield* Given.get(held))))
    })
  },
  {
    title: "charges no day with progress that names none",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      yield* Given.write(held, [{ _tag: "Progressed", stage: null, progress: Given.progress }])
      assert.deepEqual(yield* spent(held), [0, 0])
      yield* Given.write(held, [progressed(3)])
      assert.deepEqual(yield* spent(held), [2, 2])
    })
  },
  {
    title: "adds up what the plans of one owner use, whatever replica and batch they are of",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const owner = yield* Given.newOwner
      const replica = yield* Given.newReplica
      const first = yield* Given.createHeld({ owner, replica })
      const second = yield* Given.createHeld({ owner, replica })
      const elsewhere = yield* Given.createHeld({ owner })
      const other = yield* Given.createHeld()
      const batch = [first, second, other].map((stored) => Given.commitOf(stored, [progressed(1)]))
      yield* Effect.all([store.commit(batch), store.commit([Given.commitOf(elsewhere, [progressed(5)])])], {
        concurrency: 2
      })
      assert.deepEqual(yield* spent(first), [7, 7])
      assert.deepEqual(yield* spent(other), [1, 1])
    })
  },
  {
    title: "charges nothing for a plan that another replica has taken over, which goes on from what was stored",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const stale = yield* Given.createHeld()
      yield* Given.write(stale, [progressed(2)])
      yield* Given.abandon
      const taken = yield* Given.takeOver(stale, yield* Given.newReplica)
      yield* store.commit([Given.commitOf(stale, [progressed(9)])])
      yield* Given.write(taken, [progressed(3)])
      assert.deepEqual(yield* spent(stale), [3, 3])
    })
  },
  {
    title: "remembers what deleted plans have used, until the day after the next",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      yield* Given.write(held, [progressed(1, "2025-12-31")])
      yield* Given.write(held, [progressed(3, "2026-01-01")])
      yield* Given.finish(held)
      const sessions = yield* SessionStore
      assert(yield* sessions.delete(held.session_id))
      assert.deepEqual(yield* spent(held, "2025-12-31"), [1, 1])
      yield* sessions.sweep(Given.at)
      assert.deepEqual(yield* spent(held, "2025-12-31"), [0, 0])
      assert.deepEqual(yield* spent(held, "2026-01-01"), [2, 2])
    })
  }
]
