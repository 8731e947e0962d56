import type { Outcome } from "@bowline/domain/plan/Outcome"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { toEvent } from "@bowline/runtime/unstable/store/EventRow"
import type { Moment, Observed, ObservedAttempt, ObservedPlan } from "../scenario/Observed.ts"

/** An end of a plan as the store got it. */
export interface PlanEnd extends Moment {
  readonly replica: string
  readonly outcome: Outcome
}

/** The ends of a plan. One that was written again, since the store's answer was lost, counts once. */
export const endsOf = (observed: Observed, { plan }: ObservedPlan): ReadonlyArray<PlanEnd> => {
  const ends = new Map<string, PlanEnd>()
  for (const { at, changes, order, plan_id, replica } of observed.commits) {
    if (plan_id !== plan.plan_id) continue
    for (const change of changes) {
      if (change._tag !== "Settled") continue
      const key = `${replica} ${change.at} ${change.outcome.state}`
      if (!ends.has(key)) ends.set(key, { at, order, replica, outcome: change.outcome })
    }
  }
  return Array.from(ends.values())
}

const decoded = new WeakMap<ObservedPlan, ReadonlyArray<PlanEvent>>()

/** What its stream says, in order. Every rule reads it, so it is decoded once. */
export const eventsOf = (plan: ObservedPlan): ReadonlyArray<PlanEvent> => {
  const events = decoded.get(plan) ?? plan.frames.map(toEvent)
  decoded.set(plan, events)
  return events
}

/** A replica that has a plan, and since when. */
export type PlanOwner = Moment & { readonly replica: string }

/** The replicas that have had the plan, each since when, in order. */
export const ownersOf = (
  { takeOvers }: Observed,
  { created, plan, replica }: ObservedPlan
): ReadonlyArray<PlanOwner> => [{ ...created, replica }, ...takeOvers.filter(({ plan_id }) => plan_id === plan.plan_id)]

/** Whether the replica that asks had the plan when it asked. */
export const isOwners = (
  observed: Observed,
  plan: ObservedPlan,
  { began, replica }: Pick<ObservedAttempt, "began" | "replica">
): boolean => ownersOf(observed, plan).findLast(({ order }) => order < began.order)?.replica === replica

/** When the plan was asked for first. One that asks what came too late for another one was made before the end of that was stored. */
export const askedAt = ({ plans, requests }: Observed, { created, name, plan: { plan_id } }: ObservedPlan): number =>
  Math.min(
    created.at,
    ...plans.flatMap((before) => (before.inbox.some(({ moved_to }) => moved_to === plan_id) ? before.created.at : [])),
    ...requests.flatMap(({ began, plan, what }) => (plan === name && what === "ask" ? began.at : []))
  )

/** A plan, as a violation names it. */
export const named = ({ name, plan }: ObservedPlan): string => `plan ${name} (${plan.plan_id})`

/** Milliseconds as seconds. */
export const seconds = (ms: number): string => `${(ms / 1_000).toFixed(3)} s`
