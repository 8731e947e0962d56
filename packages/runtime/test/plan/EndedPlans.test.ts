import { PlanId } from "@bowline/domain/plan/Plan"
import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { say } from "@bowline/testing/provider/Turn"
import { layerOnStore, pass, post, readAll } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import * as EndedPlans from "../../src/plan/EndedPlans.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import { mortal, peer, stays } from "./Mortal.ts"
import { agents, pays } from "./Parked.ts"

const planOf = (number: number) => PlanId.make(`plan_00000000-0000-7000-8000-${String(number).padStart(12, "0")}`)

/** Counts what is sealed at once. */
const counting = (fails: (plans: ReadonlyArray<PlanId>) => boolean = () => false) => {
  const sealed: Array<ReadonlyArray<PlanId>> = []
  const seal = (plans: ReadonlyArray<PlanId>) =>
    Effect.suspend(() => {
      sealed.push(plans)
      return fails(plans) ? Effect.fail(new StorageError({ reason: new Unavailable({ cause: "away" }) })) : Effect.void
    })
  return { sealed, seal }
}

/** A store in memory that counts, too. */
const countingStore = () => {
  const { seal, sealed } = counting()
  const store = Layer.effect(
    PlanStore,
    Effect.map(PlanStore, (store) => ({ ...store, seal }))
  )
  return { sealed, stores: Layer.provideMerge(store, MemoryStore.layer) }
}

describe("plans that have ended here", () => {
  it.effect("are sealed a second later, many at once, and one batch that fails does not hold up the next", () =>
    Effect.gen(function* () {
      const { seal, sealed } = counting((plans) => plans.includes(planOf(1)))
      const add = yield* Effect.provide(EndedPlans.make, Layer.mock(PlanStore, { seal, isDurable: true }))
      for (let number = 0; number < 150; number++) add(planOf(number))
      yield* TestClock.adjust("900 millis")
      assert.deepStrictEqual(sealed, [])
      yield* TestClock.adjust("100 millis")
      assert.deepStrictEqual(
        sealed.map(({ length }) => length),
        [100, 50]
      )
      yield* TestClock.adjust("1 minute")
      assert.lengthOf(sealed, 2)
      add(planOf(150))
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(sealed.slice(2), [[planOf(150)]])
    }).pipe(Effect.scoped)
  )

  it.effect("are those that have run here to their ends", () => {
    const { sealed, stores } = countingStore()
    return Effect.gen(function* () {
      const { frames, plan_id } = yield* post({ question: "?" })
      yield* readAll(frames)
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(sealed, [[plan_id]])
    }).pipe(Effect.scoped, Effect.provide(Layer.provideMerge(layerOnStore({ script: [[say("ok")]] }), stores)))
  })

  it.effect("are sealed, too, when they are parked here", () => {
    const { sealed, stores } = countingStore()
    return Effect.gen(function* () {
      const process = yield* mortal({ script: [pays], peers: peer().peers })
      const { plan_id } = yield* process.on(post({ question: "?", ...stays, agents }))
      yield* pass("4 seconds", "1 second")
      assert.deepStrictEqual(sealed, [])
      yield* pass("4 seconds", "1 second")
      assert.deepStrictEqual(sealed, [[plan_id]])
    }).pipe(Effect.scoped, Effect.provide(stores))
  })
})
