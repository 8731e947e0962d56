import * as Given from "@bowline/testing/unstable/store/Given"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { makePlan, makeSession, Memory } from "../../src/memory/internal/Memory.ts"
import { apply } from "../../src/memory/internal/MemoryChanges.ts"
import { LeaseStore } from "../../src/store/LeaseStore.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { type Heard, Notices } from "../../src/store/Notices.ts"

describe("the stores in memory", () => {
  it.effect("tell that a replica has ended", () =>
    Effect.gen(function* () {
      const heard: Array<Heard> = []
      yield* (yield* Notices).subscribe((notice) => heard.push(notice))
      yield* (yield* LeaseStore).leave("replica_a")
      assert.deepStrictEqual(heard, [{ _tag: "PlansLeft" }])
    }).pipe(Effect.provide(MemoryStore.layer))
  )

  it.effect("keep a request, and its secrets until its plan is over", () =>
    Effect.gen(function* () {
      const memory = new Memory(Infinity)
      const plan = yield* Given.newPlan()
      const session = makeSession(memory, plan)
      const record = makePlan(memory, plan, session, 0)
      apply(memory, record, session, { _tag: "HandedOver" }, Given.at)
      assert.deepStrictEqual(record.request, plan.storedRequest)
      apply(memory, record, session, Given.settled(), Given.at)
      assert.deepStrictEqual(record.request, { ...plan.storedRequest, secrets: null })
    })
  )

  it.effect("commit and read on at the same cost however much their plan has written", () =>
    Effect.gen(function* () {
      const held = yield* Given.createHeld()
      let looks = 0
      const rowOf = (seq: number) => ({
        ...Given.row(seq, "text.delta"),
        get seq() {
          looks++
          return seq
        }
      })
      const costOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
        Effect.suspend(() => {
          looks = 0
          return Effect.map(effect, () => looks)
        })
      const costs: Array<ReadonlyArray<number>> = []
      for (const [from, until] of [
        [2, 101],
        [101, 10_001]
      ] as const) {
        for (let seq = from; seq < until; seq++) yield* Given.write(held, [], [rowOf(seq)])
        costs.push([
          yield* costOf(Given.write(held, [], [rowOf(until)])),
          yield* costOf(Given.write(held, [], [rowOf(until)])),
          yield* costOf(Given.eventsOf(held, until - 2))
        ])
        yield* Given.write(held, [], [rowOf(until + 1)])
      }
      assert.deepStrictEqual(costs[1]?.slice(0, 2), costs[0]?.slice(0, 2))
      // A search in the rows looks at one more for each time that they double.
      assert.isAtMost(costs[1]?.[2] ?? Infinity, (costs[0]?.[2] ?? 0) + 20)
    }).pipe(Effect.provide(MemoryStore.layer))
  )
})
