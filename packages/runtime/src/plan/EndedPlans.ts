import type { PlanId } from "@bowline/domain/plan/Plan"
import { Effect, Latch, type Scope } from "effect"
import { PlanStore } from "../store/PlanStore.ts"

/** How long a plan that is over, or parked, waits for others that are sealed with it, and how many are sealed at once. */
const sealWithin = "1 second"
const plansAtOnce = 100

/** Beyond that the plans are left to the sweep: what ends faster than it is sealed would fill the memory. */
const maxWaiting = 10_000

/** Seals plans that have ended or were parked here, many at once. What it misses, since the database or the process goes away, the sweep seals. Gives what takes a plan. */
export const make: Effect.Effect<(plan: PlanId) => void, never, PlanStore | Scope.Scope> = Effect.gen(function* () {
  const store = yield* PlanStore
  const ended = new Set<PlanId>()
  const pending = Latch.makeUnsafe(false)
  yield* Effect.gen(function* () {
    yield* pending.await
    yield* Effect.sleep(sealWithin)
    pending.closeUnsafe()
    while (ended.size > 0) {
      const plans = Array.from(ended.values().take(plansAtOnce))
      for (const plan of plans) ended.delete(plan)
      yield* Effect.ignoreCause(store.seal(plans), { log: "Debug", message: "plans_not_sealed" })
    }
  }).pipe(Effect.forever, Effect.forkScoped)
  return (plan) => {
    if (ended.size >= maxWaiting) return
    ended.add(plan)
    pending.openUnsafe()
  }
})
