import type { Observed } from "../scenario/Observed.ts"
import { seconds } from "./PlanEnd.ts"

/** A due time of a schedule has one plan at most, and not before it is due; the plan is the one that is stored. */
export const firings = (observed: Observed): ReadonlyArray<string> => {
  const fired = new Map<string, Observed["firings"][number]>()
  return observed.firings.flatMap((firing) => {
    const { at, due, plan_id, replica, schedule_id } = firing
    const key = `${schedule_id} ${due}`
    const before = fired.get(key)
    fired.set(key, firing)
    const what = `the due time ${seconds(due)} of ${schedule_id} is fired by ${replica} at ${seconds(at)}`
    const isStored = observed.plans.some(({ plan }) => plan.plan_id === plan_id)
    return [
      ...(before === undefined ? [] : [`${what}, and was fired by ${before.replica} at ${seconds(before.at)}`]),
      ...(due > at ? [`${what}, before it is due`] : []),
      ...(isStored ? [] : [`${what}, and its plan is not stored`])
    ]
  })
}
