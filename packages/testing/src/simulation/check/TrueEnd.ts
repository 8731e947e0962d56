import type { AbortReason } from "@bowline/domain/plan/Outcome"
import type { Observed, ObservedPlan, ObservedReader } from "../Observed.ts"
import { wasHindered } from "./Fitness.ts"
import { onTheWay } from "./Spending.ts"
import { askedAt, endsOf, named, ownersOf, type PlanEnd, seconds } from "./PlanEnd.ts"

/** How long a plan that was taken over runs on without a reader, in milliseconds. */
const takeoverGrace = 60_000

const isConnected = ({ began, ended }: ObservedReader, order: number): boolean =>
  began.order < order && (ended === undefined || ended.order > order)

/** Somebody left at some time, and then nobody was there; or nobody came to a plan that was taken over. */
const wasLeftAlone = (observed: Observed, plan: ObservedPlan, end: PlanEnd): boolean => {
  const readers = observed.readers.filter(({ plan_id }) => plan_id === plan.plan.plan_id)
  // Nobody tells, or hears, of a reader at another replica while one of the two is cut off.
  const isKnown = ({ replica, began }: ObservedReader) =>
    Array.from(new Set([replica, end.replica])).every(
      (name) =>
        !wasHindered(observed, name, began.at, end.at) &&
        !observed.replicas.some((one) => one.replica === name && one.deaf.some(({ from }) => from < end.at))
    )
  // The gateway has ended the stream of this reader, who learns it a moment later.
  const isSentAway = ({ ended }: ObservedReader) =>
    ended !== undefined && ended.how !== "done" && Math.abs(ended.at - end.at) < 100
  const others = readers.filter((reader) => isKnown(reader) && !isSentAway(reader))
  if (readers.length === 0) return true
  const departures = readers.flatMap(({ ended }) => (ended !== undefined && ended.order < end.order ? [ended] : []))
  const isUnread = observed.takeOvers.some(
    ({ at, plan_id }) => plan_id === plan.plan.plan_id && at + takeoverGrace <= end.at
  )
  return (
    (isUnread && !others.some((reader) => isConnected(reader, end.order))) ||
    departures.some(({ order }) => !others.some((reader) => isConnected(reader, order))) ||
    !others.some((reader) => isConnected(reader, end.order))
  )
}

const abortIsTrue = (observed: Observed, plan: ObservedPlan, end: PlanEnd, reason: AbortReason): boolean => {
  switch (reason) {
    case "disconnect":
      return plan.request.preferences.on_disconnect === "cancel" && wasLeftAlone(observed, plan, end)
    case "deadline":
      // Its time began when it was asked for, and not when it was stored.
      return end.at >= plan.deadline - (plan.created.at - askedAt(observed, plan))
    case "cancelled":
      return observed.requests.some(
        ({ began, what, plan: of }) => what === "cancel" && of === plan.name && began.order < end.order
      )
    case "superseded":
      return observed.plans.some(
        (other) =>
          other !== plan &&
          other.plan.session_id === plan.plan.session_id &&
          other.request.preferences.on_busy === "interrupt" &&
          other.created.order < end.order
      )
    case "shutdown":
      return observed.requests.some(
        ({ began, replica, what }) => what === "drain" && replica === end.replica && began.order < end.order
      )
  }
}

/** What the providers of a run, or the network, have done that ends a plan with this code. */
const providerHasFailed = ({ attempts, silence }: Observed, reason: string): boolean =>
  attempts.some(
    ({ quiet, result }) =>
      result === reason ||
      (result === "cut" && (reason === "transport" || (reason.endsWith("timeout") && quiet >= silence - onTheWay)))
  )

/** Whether the network has reset a request of the plan to a provider. */
const wasReset = ({ resets }: Observed, { name }: ObservedPlan, { order }: PlanEnd): boolean =>
  resets.some((reset) => reset.call === undefined && reset.plan === name && reset.order < order)

/** Whether a credential of the plan's model was put aside: an attempt that finds none free has no provider to blame. */
const isNoneFree = ({ windows }: Observed, { plan: { model } }: ObservedPlan, { at, order }: PlanEnd): boolean =>
  windows.some(
    (window) => window.order < order && window.until > at && window.credential.startsWith(model.split("/")[0] ?? "")
  )

const failureIsTrue = (observed: Observed, plan: ObservedPlan, end: PlanEnd, code: string): boolean => {
  const hindered = ownersOf(observed, plan).some(({ replica, at }) => wasHindered(observed, replica, at, end.at))
  if (code === "interrupted" || code === "storage") return hindered
  if (code === "internal") return false
  const reason = /^provider_(.*)$/.exec(code)?.[1]
  return (
    reason === undefined ||
    reason === "empty_answer" ||
    providerHasFailed(observed, reason) ||
    (reason === "transport" && wasReset(observed, plan, end)) ||
    (reason === "rate_limited" && isNoneFree(observed, plan, end))
  )
}

/** The last words that the provider has said in a finished answer are those of the plan's answer. */
const answerIsSaid = ({ attempts }: Observed, plan: ObservedPlan, { order }: PlanEnd): boolean => {
  const { final } = plan.plan
  if (final === null || final.stop_reason !== "stop") return true
  const last = attempts.findLast(
    ({ began, plan: of, result }) => of === plan.name && result === "finished" && began.order < order
  )
  return last !== undefined && last.said !== "" && final.text.endsWith(last.said)
}

/** A plan says the truth about its end: an answer is what the provider said, an abort has the reason that it names. */
export const trueEnd = (observed: Observed): ReadonlyArray<string> =>
  observed.plans.flatMap((plan) => {
    const [end] = endsOf(observed, plan)
    if (end === undefined) return []
    const { outcome } = end
    if (outcome.state === "completed") {
      return answerIsSaid(observed, plan, end)
        ? []
        : [`${named(plan)} answers "${outcome.final.text}", which its provider has not said`]
    }
    const { code, message, reason } = outcome.error
    const isTrue =
      reason === undefined ? failureIsTrue(observed, plan, end, code) : abortIsTrue(observed, plan, end, reason)
    return isTrue
      ? []
      : [`${named(plan)} ends at ${seconds(end.at)} with ${code} ${reason ?? ""}, which is not true: ${message}`]
  })
