import type { AbortReason } from "@bowline/domain/plan/Outcome"
import { PlanId } from "@bowline/domain/plan/Plan"
import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { pass } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Array, Effect, Layer, Logger } from "effect"
import * as AbortRequests from "../../src/plan/AbortRequests.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import * as Word from "../stream/Word.ts"

const plan_id = PlanId.make("plan_00000000-0000-0000-0000-000000000001")
const away = new StorageError({ reason: new Unavailable({ cause: "down" }) })

/** A replica on a store that is away when the test says so, with what it asks, logs and aborts. */
const setUp = () => {
  const state = { isAway: false, isStarting: false, isHere: false, reads: 0, isRequested: false }
  const aborted: Array<AbortReason> = []
  const warnings: Array<unknown> = []
  const store = Layer.mock(PlanStore, {
    isDurable: true,
    abortRequests: () =>
      Effect.suspend(() => {
        state.reads++
        return state.isAway
          ? Effect.fail(away)
          : Effect.succeed(state.isRequested ? [{ plan_id, reason: "cancelled" }] : [])
      })
  })
  const logger = Logger.make<unknown, void>(({ message }) => void warnings.push(Array.ensure(message)[0]))
  const listen = AbortRequests.listen("a", {
    isIdle: () => false,
    isStarting: () => state.isStarting,
    abort: (_, reason) => {
      if (state.isHere) aborted.push(reason)
      return state.isHere
    }
  })
  const word = Word.make()
  return { state, aborted, warnings, listen, word, layer: Layer.mergeAll(store, word.layer, Logger.layer([logger])) }
}

describe("requests to abort plans", () => {
  it.effect("are asked for ever more seldom while the database is away, with one warning for each time", () => {
    const { state, warnings, listen, word, layer } = setUp()
    return Effect.gen(function* () {
      yield* listen
      for (const losses of [1, 2]) {
        state.isAway = true
        word.listen(false)
        const { reads } = state
        yield* pass("1 minute")
        assert.isAtLeast(state.reads - reads, 10)
        assert.isAtMost(state.reads - reads, 20)
        assert.deepStrictEqual(
          warnings,
          Array.makeBy(losses, () => "abort_requests_failed")
        )
        state.isAway = false
        word.listen(true)
        yield* pass("1 second")
      }
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.effect("are asked for again soon where a plan is about to run here, and carried out then", () => {
    const { state, aborted, listen, word, layer } = setUp()
    return Effect.gen(function* () {
      yield* listen
      yield* pass("1 second")
      state.isRequested = true
      state.isStarting = true
      word.tell({ _tag: "AbortRequested", plan_id })
      yield* pass("1 second")
      state.isHere = true
      yield* pass("300 millis")
      assert.deepStrictEqual([...new Set(aborted)], ["cancelled"])
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.effect("are asked for no sooner because of a plan that is not about to run here", () => {
    const { state, listen, layer } = setUp()
    return Effect.gen(function* () {
      state.isRequested = true
      yield* listen
      yield* pass("1 second")
      const { reads } = state
      yield* pass("20 seconds")
      assert.strictEqual(state.reads - reads, 4)
    }).pipe(Effect.scoped, Effect.provide(layer))
  })
})
