import { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import { Plans } from "@bowline/runtime/plan/Plans"
import { Audience, Notices } from "@bowline/runtime/unstable/store/Notices"
import { type ClaimedTarget, PushStore, type TargetKey } from "@bowline/runtime/unstable/store/PushStore"
import { assert, it } from "@effect/vitest"
import { Effect, FiberMap, Latch, Layer } from "effect"
import { TestClock } from "effect/testing"
import { keepNotifying, Targets } from "../../src/push/Targets.ts"

const target: ClaimedTarget = {
  owner: CallerName.make("ann"),
  task_id: PlanId.make("plan_00000000-0000-0000-0000-000000000001"),
  target: { id: "one", url: "http://a.test/", wire: "1.0", scheme: null, secrets: null, webhook: null },
  cursor: { plan: 0, seq: 0 },
  failing_since: null,
  fence: 1
}

it.effect("a target that comes back while its former notifications still run is claimed once, not at each look", () =>
  Effect.gen(function* () {
    let claims = 0
    // The replica that had it meanwhile has died before this one learnt that it lost it.
    const claim: PushStore["Service"]["claim"] = (_, running) =>
      Effect.sync(() => (++claims <= 2 || running.length === 0 ? [target] : []))
    let begun = 0
    const notify = () =>
      Effect.andThen(
        Effect.sync(() => begun++),
        Effect.never
      )
    const fibers = yield* FiberMap.make<TargetKey>()
    const wake = Latch.makeUnsafe(false)
    yield* keepNotifying(() => notify, {
      store: { claim },
      plans: { isDraining: Effect.succeed(false) },
      replica: "replica_a",
      wake,
      fibers
    })
    yield* TestClock.adjust("30 seconds")
    assert.strictEqual(begun, 2)
  }).pipe(Effect.scoped)
)

it.effect(
  "targets are looked for each 5 s, and at once where a notice says that one is due, or may have been missed",
  () => {
    let claims = 0
    const audience = new Audience()
    const claim = () => Effect.sync(() => (claims++, []))
    const parts = Layer.mergeAll(
      Layer.mock(PushStore, { claim }),
      Layer.mock(Plans, { replica: Effect.succeed("replica_a"), isDraining: Effect.succeed(false) }),
      Layer.succeed(Notices, { publish: () => Effect.void, isListening: () => true, subscribe: audience.subscribe })
    )
    return Effect.gen(function* () {
      yield* Targets
      yield* TestClock.adjust("60 seconds")
      assert.strictEqual(claims, 13)
      for (const _tag of ["DeliveriesDue", "ListeningChanged", "PlansLeft"] as const) {
        audience.tell({ _tag })
        yield* TestClock.adjust(0)
      }
      assert.strictEqual(claims, 15)
    }).pipe(Effect.provide(Layer.provide(Targets.layer, parts)))
  }
)
