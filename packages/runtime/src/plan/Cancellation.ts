import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled } from "@bowline/domain/plan/Plan"
import type { PlanId } from "@bowline/domain/plan/PlanId"
import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Deferred, Effect, Schedule } from "effect"
import type { PlanStore } from "./PlanStore.ts"
import type { RunningPlans } from "./RunningPlans.ts"

/** How long a cancel waits for the plan to be settled before it answers with the plan as it is. */
const settleTimeout = "15 seconds"

/** Aborts a plan that is not over (`cancelled`), wherever it runs, and waits until it is settled, 15 s at most. */
export const cancel = Effect.fnUntraced(function* (
  running: RunningPlans["Service"],
  store: PlanStore["Service"],
  caller: CallerName,
  id: PlanId
): Effect.fn.Return<void, NotFound | StorageError> {
  /** It may come to this process meanwhile, or go from it to another one. */
  const isOver = Effect.gen(function* () {
    const here = running.find(id)
    here?.run.abort("cancelled")
    if (here !== undefined) yield* Deferred.await(here.live.closed)
    if (isSettled(yield* store.get(caller, id))) return true
    yield* store.requestAbort(id, "cancelled")
    return false
  })
  yield* isOver.pipe(
    Effect.repeat({ until: (over) => over, schedule: Schedule.spaced("100 millis") }),
    Effect.timeoutOption(settleTimeout)
  )
})
