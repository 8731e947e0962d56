import type { PlanId } from "@bowline/domain/plan/Plan"
import { type Duration, Effect, FiberSet, type Scope } from "effect"
import { Notices } from "../store/Notices.ts"
import { PlanStore } from "../store/PlanStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import { RemotePlans } from "../stream/RemotePlans.ts"

/**
 * Ends parked plans that nobody reads. No process has them, so whoever had a reader looks, when that has left, and when it has parked the plan: if nobody
 * reads the plan any more, here or elsewhere, and it ends then (`on_disconnect: "cancel"`), it is aborted. Gives what does that in the background.
 */
export const make: Effect.Effect<
  (plan: PlanId, grace: Duration.Input) => Effect.Effect<void>,
  never,
  PlanStore | RemotePlans | Notices | Scope.Scope
> = Effect.gen(function* () {
  const store = yield* PlanStore
  const remote = yield* RemotePlans
  const notices = yield* Notices
  const fibers = yield* FiberSet.make()
  return (plan, grace) =>
    remote.unread(plan, grace).pipe(
      Effect.flatMap((isUnread) =>
        isUnread
          ? Effect.andThen(
              retryWhileAway(store.requestAbort(plan, "disconnect", true)),
              // Something may have woken it meanwhile.
              notices.publish([{ _tag: "Unread", plan_id: plan }])
            )
          : Effect.void
      ),
      Effect.ignore({ log: "Warn", message: "storage_failed" }),
      (ending) => FiberSet.run(fibers, ending),
      Effect.asVoid
    )
})
