import { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import type { ClaimedTarget, PushStore, TargetKey } from "@bowline/runtime/unstable/store/PushStore"
import { assert, it } from "@effect/vitest"
import { Effect, FiberMap, Latch } from "effect"
import { TestClock } from "effect/testing"
import { keepNotifying } from "../../src/push/Targets.ts"

const target: ClaimedTarget = {
  owner: CallerName.make("ann"),
  task_id: PlanId.make("plan_00000000-0000-0000-0000-000000000001"),
  target: { id: "one", url: "http://a.test/", wire: "1.0", scheme: null, secrets: null, webhook: null },
  cursor: { plan: 0, seq: 0 },
  failing_since: null,
  fence: 1
}

it.effect("a target that comes back while its former notifications still run is claimed once, not every 3 s", () =>
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
