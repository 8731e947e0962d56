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
  /** One that is stored, and is not run yet, may come to this process meanwhile. */
  const isOver = Effect.suspend(() => {
    const here = running.find(id)
    if (here === undefined) return Effect.map(store.get(caller, id), isSettled)
    here.run.abort("cancelled")
    return Effect.as(Deferred.await(here.live.closed), true)
  })
  if (running.find(id) === undefined) yield* store.requestAbort(id, "cancelled")
  yield* isOver.pipe(
    Effect.repeat({ until: (over) => over, schedule: Schedule.spaced("100 millis") }),
    Effect.timeoutOption(settleTimeout)
  )
})
