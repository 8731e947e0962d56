import { anonymous } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { stall } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { layerOnStore, pass, post } from "@bowline/testing/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Context, Duration, Effect, Fiber, Layer } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { PlanStreams } from "../../src/plan/PlanStreams.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"

/** A replica that counts what it asks the store about one plan, and takes its time to store how a plan ended. */
const replica = Effect.fnUntraced(function* (settling: Duration.Input = 0) {
  const store = yield* PlanStore
  let statements = 0
  const counting = Layer.succeed(PlanStore, {
    ...store,
    get: (...given) => Effect.suspend(() => (statements++, store.get(...given))),
    requestAbort: (...given) => Effect.suspend(() => (statements++, store.requestAbort(...given))),
    commit: (batch) => {
      const isEnd = batch.some(({ changes }) => changes.some(({ _tag }) => _tag === "Settled"))
      return Effect.delay(store.commit(batch), isEnd ? settling : 0)
    }
  })
  const context = yield* Layer.build(
    Layer.provide(Layer.fresh(layerOnStore({ script: () => [say("half"), stall] })), counting)
  )
  const plans = Context.get(context, Plans)
  return {
    start: Effect.provideService(post({ question: "?" }), PlanStreams, Context.get(context, PlanStreams)),
    cancel: (id: PlanId) => Effect.forkChild(plans.cancel(anonymous, id)),
    statements: () => statements
  }
})

describe("a plan that is cancelled on another replica", () => {
  it.effect("is waited for without asking the database over and over, until it is settled", () =>
    Effect.gen(function* () {
      const [on, elsewhere] = [yield* replica("10 seconds"), yield* replica()]
      const { plan_id } = yield* on.start
      yield* pass("1 second")
      const cancelling = yield* elsewhere.cancel(plan_id)
      yield* pass("9990 millis", "10 millis")
      assert.isUndefined(cancelling.pollUnsafe())
      yield* pass("10 millis", "5 millis")
      assert.strictEqual((yield* Fiber.join(cancelling)).error?.reason, "cancelled")
      assert.isAtMost(elsewhere.statements(), 15)
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is given as it is when it is not settled within 30 s", () =>
    Effect.gen(function* () {
      const [on, elsewhere] = [yield* replica("31 seconds"), yield* replica()]
      const { plan_id } = yield* on.start
      yield* pass("1 second")
      const cancelling = yield* elsewhere.cancel(plan_id)
      yield* pass("29900 millis")
      assert.isUndefined(cancelling.pollUnsafe())
      yield* pass("100 millis", "50 millis")
      assert.strictEqual((yield* Fiber.join(cancelling)).state, "running")
      yield* pass("1 second")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )
})
