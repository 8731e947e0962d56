import { anonymous } from "@bowline/domain/caller/CallerName"
import { Rejected, StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { stall, wait } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { type PlanCommit, PlanStore } from "../../src/store/PlanStore.ts"
import { names } from "./Bob.ts"
import { askAndKill, mortal, replayed, stays } from "./Mortal.ts"

describe("a plan that nobody runs", () => {
  const lost = new StorageError({ reason: new Unavailable({ cause: "no answer" }) })

  it.effect("is run by its own replica when it was stored long after the answer to that was lost", () =>
    Effect.gen(function* () {
      const plans = yield* Plans
      assert.strictEqual((yield* Effect.flip(post({ question: "?", ...stays })))._tag, "StorageError")
      yield* pass("30 seconds", "1 second")
      const list = Effect.map(plans.list(anonymous, {}, { limit: 10 }), ({ items }) => items.map(({ state }) => state))
      assert.deepStrictEqual(yield* list, [])
      yield* pass("20 seconds", "1 second")
      assert.deepStrictEqual(yield* list, ["completed"])
    }).pipe(
      Effect.provide(
        layer({
          script: [[say("fine")]],
          disturb: ({ create }) => ({
            isDurable: true,
            create: (plan, maxQueue) =>
              Effect.andThen(
                Effect.forkDetach(Effect.delay(create(plan, maxQueue), "40 seconds"), { startImmediately: true }),
                Effect.fail(lost)
              )
          })
        })
      ),
      Effect.scoped
    )
  )

  it.effect("is not taken from its own replica while it waits for its session", () => {
    const taken: Array<number> = []
    return Effect.gen(function* () {
      const asked = yield* Effect.forEach(["1", "2"], (question) => post({ question, session_id: "s" }))
      const readers = yield* Effect.forEach(asked, ({ frames }) => Effect.forkChild(readAll(frames)))
      yield* pass("50 seconds", "1 second")
      const ends = yield* Effect.forEach(readers, Fiber.join)
      assert.deepStrictEqual(
        ends.map((events) => single(events, "final").text),
        ["fine", "fine"]
      )
      assert.deepStrictEqual(new Set(taken), new Set([0]))
    }).pipe(
      Effect.provide(
        layer({
          script: () => [wait("20 seconds"), say("fine")],
          disturb: ({ takeOver }) => ({
            takeOver: (...given) =>
              Effect.tap(takeOver(...given), ({ length }) => Effect.sync(() => taken.push(length)))
          })
        })
      ),
      Effect.scoped
    )
  })
})

describe("an end that the database rejects", () => {
  const rejecting = (isRejected: (commit: PlanCommit) => boolean) =>
    Effect.map(PlanStore, (store) => {
      const counts = { takeOvers: 0, rejected: 0 }
      const disturbed: PlanStore["Service"] = {
        ...store,
        takeOver: (...given) =>
          Effect.tap(store.takeOver(...given), ({ length }) => Effect.sync(() => (counts.takeOvers += length))),
        commit: (batch) =>
          Effect.suspend(() => {
            if (!batch.some(isRejected)) return store.commit(batch)
            counts.rejected++
            return Effect.fail(new StorageError({ reason: new Rejected({ cause: "no" }) }))
          })
      }
      return { counts, disturbed }
    })
  const isEnd = ({ changes }: PlanCommit) => changes.some(({ _tag }) => _tag === "Settled")

  it.effect("is stored without the text that was shown", () =>
    Effect.gen(function* () {
      const { counts, disturbed } = yield* rejecting(
        (commit) => isEnd(commit) && JSON.stringify(commit).includes("half")
      )
      const first = yield* mortal({ script: () => [say("half"), stall] })
      const second = yield* mortal({ script: [], config: { resume: false } }).pipe(
        Effect.provideService(PlanStore, disturbed)
      )
      const { plan_id } = yield* askAndKill(first)
      const events = yield* replayed(second, plan_id)
      assert.deepStrictEqual(names(events).slice(-2), ["error", "done"])
      assert.strictEqual(single(events, "error").code, "interrupted")
      assert.deepStrictEqual(counts, { takeOvers: 1, rejected: 1 })
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is written again now and then, by the one process that has taken the plan over", () =>
    Effect.gen(function* () {
      let isPoor = true
      const { counts, disturbed } = yield* rejecting((commit) => isPoor && isEnd(commit))
      const first = yield* mortal({ script: () => [say("half"), stall] })
      const second = yield* mortal({ script: [], config: { resume: false } }).pipe(
        Effect.provideService(PlanStore, disturbed)
      )
      const { plan_id } = yield* askAndKill(first)
      yield* pass("15 minutes", "1 second")
      assert.strictEqual(counts.takeOvers, 1)
      assert.isAtMost(counts.rejected, 15)
      isPoor = false
      yield* pass("5 minutes", "1 second")
      assert.strictEqual((yield* second.plans.get(anonymous, plan_id)).error?.code, "interrupted")
      assert.strictEqual(counts.takeOvers, 1)
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )
})
