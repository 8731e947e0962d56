import { type Context, Duration } from "effect"
import type { PlanRun } from "../planner/PlanRun.ts"
import * as Alarm from "../process/Alarm.ts"
import type { LivePlan } from "../stream/LivePlan.ts"

/** How soon a plan is looked at again that may not be parked now. */
const again = 1_000

/** Why a plan is not parked, for the log. With `isForGood` it is not asked again. */
export interface Obstacle {
  readonly why: string
  readonly isForGood: boolean
}

interface Parts {
  /** How long a plan only waits before it is parked; undefined where none is. */
  readonly after: Duration.Duration | undefined
  /** Whether it may be parked now, or why it is not parked as long as this is so. */
  readonly mayPark: (run: PlanRun, live: LivePlan) => boolean | Obstacle
  readonly context: Context.Context<never>
}

/**
 * Whether nothing of the plan runs but waits. A call whose wait has ended runs, also before its fiber has gone on: then its stage has no open
 * wait. A plan that was taken over waits when its calls do so here, and not before.
 */
export const onlyWaits = ({ inbox, stage, stages }: PlanRun): boolean =>
  (stage === "approval" || stage === "client") && stages.waits > 0 && inbox.waits.length === stages.waits

/**
 * Calls `park` when the plan has only waited for so long, and again later if it is not parked then; or `refuse`, once for each wait that cannot be parked. A wait for a time alone needs nobody: that
 * plan is parked at once. Returns what ends that.
 */
export const watch = (
  run: PlanRun,
  live: LivePlan,
  { after, context, mayPark }: Parts,
  to: { readonly park: () => void; readonly refuse: (why: string) => void }
): (() => void) => {
  if (after === undefined) return () => undefined
  let cancel: (() => void) | undefined
  let isAtOnce = false
  let isOver = false
  let isRefused = false
  const stop = () => {
    cancel?.()
    cancel = undefined
  }
  const set = (millis: number) => {
    stop()
    cancel = Alarm.set(millis, ring, context)
  }
  const ring = () => {
    cancel = undefined
    if (isOver || !onlyWaits(run)) return
    const may = mayPark(run, live)
    if (may === true) to.park()
    if (typeof may === "object") {
      if (!isRefused) to.refuse(may.why)
      isRefused = true
      isOver = may.isForGood
    }
    if (!isOver) set(again)
  }
  const look = () => {
    if (isOver || !onlyWaits(run)) {
      isRefused = false
      return stop()
    }
    const wantsNow = run.inbox.waits.some(({ kind }) => kind === "timer")
    if (cancel !== undefined && wantsNow === isAtOnce) return
    isAtOnce = wantsNow
    set(wantsNow ? 0 : Duration.toMillis(after))
  }
  run.stages.onChange = look
  run.inbox.onChange = look
  return () => {
    isOver = true
    stop()
  }
}
