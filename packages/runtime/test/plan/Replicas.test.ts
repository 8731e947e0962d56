import { anonymous } from "@bowline/domain/caller/CallerName"
import { wait } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { layerOnStore, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import { Plans } from "../../src/plan/Plans.ts"
import { PlanStreams } from "../../src/plan/PlanStreams.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"

/** One of several on the same stores. */
const replica = Effect.map(
  Layer.build(Layer.fresh(layerOnStore({ script: () => [say("one"), wait("2 seconds"), say("two")] }))),
  (context) =>
    <A, E, R>(effect: Effect.Effect<A, E, R>) =>
      effect.pipe(
        Effect.provideService(Plans, Context.get(context, Plans)),
        Effect.provideService(PlanStreams, Context.get(context, PlanStreams))
      )
)

const moment = pass("1 millis", "1 millis")

describe("replicas", () => {
  it.effect("abort a plan at once that is cancelled on another one", () =>
    Effect.gen(function* () {
      const [on, elsewhere] = [yield* replica, yield* replica]
      const { plan_id, frames } = yield* on(post({ question: "?" }))
      const reader = yield* Effect.forkChild(readAll(frames))
      yield* pass("1 second")
      const before = yield* Clock.currentTimeMillis
      yield* Effect.forkChild(elsewhere(Effect.flatMap(Plans, (plans) => plans.cancel(anonymous, plan_id))))
      yield* moment
      const error = single(yield* Fiber.join(reader), "error")
      assert.strictEqual(error.reason, "cancelled")
      assert.isAtMost((yield* Clock.currentTimeMillis) - before, 1)
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("abort a plan soon that is cancelled before its own replica knows that it is stored", () => {
    const late = Layer.effect(
      PlanStore,
      Effect.map(PlanStore, (plans) => ({
        ...plans,
        create: (plan, maxQueue) => Effect.tap(plans.create(plan, maxQueue), Effect.sleep("100 millis"))
      }))
    ).pipe(Layer.provideMerge(MemoryStore.layer))
    return Effect.gen(function* () {
      const plans = yield* PlanStore
      const on = yield* replica
      const asking = yield* Effect.forkChild(
        on(Effect.flatMap(post({ question: "?" }), ({ frames }) => readAll(frames)))
      )
      yield* moment
      const { items } = yield* plans.list(anonymous, {}, { limit: 1 })
      yield* Effect.forEach(items, ({ plan_id }) => plans.requestAbort(plan_id, "superseded"))
      yield* pass("400 millis", "10 millis")
      assert.isDefined(asking.pollUnsafe())
      assert.strictEqual(single(yield* Fiber.join(asking), "error").reason, "superseded")
    }).pipe(Effect.scoped, Effect.provide(late))
  })

  it.effect("give a reader each frame when it is stored, wherever it reads", () =>
    Effect.gen(function* () {
      const [on, elsewhere] = [yield* replica, yield* replica]
      const { plan_id, frames } = yield* on(post({ question: "?" }))
      const here = yield* Effect.forkChild(Stream.runCollect(frames))
      yield* moment
      const reader = yield* elsewhere(Effect.flatMap(PlanStreams, (streams) => streams.read(anonymous, plan_id, 0)))
      const seen: Array<unknown> = []
      yield* Effect.forkChild(Stream.runForEach(reader.frames, (frame) => Effect.sync(() => seen.push(frame))))
      yield* pass("3 seconds")
      assert.deepStrictEqual(seen, yield* Fiber.join(here))
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("keep a plan that is read on another one only, and end it when that reader disconnects", () =>
    Effect.gen(function* () {
      const [on, elsewhere] = [yield* replica, yield* replica]
      const [here, there] = [yield* Scope.make(), yield* Scope.make()]
      const { plan_id } = yield* Scope.provide(on(post({ question: "?" })), here)
      const plans = yield* elsewhere(Effect.map(Plans, (plans) => plans))
      const streams = yield* elsewhere(Effect.map(PlanStreams, (streams) => streams))
      yield* Scope.provide(streams.read(anonymous, plan_id, 0), there)
      yield* moment
      yield* Scope.close(here, Exit.void)
      yield* pass("1 second")
      assert.strictEqual((yield* plans.get(anonymous, plan_id)).state, "running")
      yield* Scope.close(there, Exit.void)
      yield* moment
      assert.strictEqual((yield* plans.get(anonymous, plan_id)).error?.reason, "disconnect")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )
})
