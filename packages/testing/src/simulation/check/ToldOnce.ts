import { isSettled } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { Observed, ObservedPlan } from "../scenario/Observed.ts"
import { eventsOf, named } from "./PlanEnd.ts"

const toldOf = ({ event }: PlanEvent): ReadonlyArray<string> =>
  event === "approval.requested" ? [event] : event === "waiting" ? ["plan.waiting"] : []

/** What the webhook of a plan is to be told: the waits that its events say, and its end. */
const due = (plan: ObservedPlan): ReadonlyArray<string> => [
  ...eventsOf(plan).flatMap(toldOf),
  ...(isSettled(plan.plan) ? [`plan.${plan.plan.state}`] : [])
]

/** Each wait of a plan that begins, and its end, is a delivery to its webhook, once and in order, whatever dies and whichever answer of the store is lost. */
export const toldOnce = ({ plans }: Observed): ReadonlyArray<string> =>
  plans.flatMap((plan) => {
    const [told, expected] = [plan.told.join(", "), due(plan).join(", ")]
    return told === expected ? [] : [`${named(plan)}: its webhook is told [${told}], and [${expected}] has happened`]
  })
