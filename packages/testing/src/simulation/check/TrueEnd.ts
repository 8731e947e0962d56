import type { AbortReason } from "@bowline/domain/plan/Outcome"
import { Duration } from "effect"
import type { Observed, ObservedPlan, ObservedReader } from "../scenario/Observed.ts"
import { wasHindered } from "./Fitness.ts"
import { askedAt, endsOf, named, type PlanEnd, seconds } from "./PlanEnd.ts"
import { isTrueAnswer } from "./TrueAnswer.ts"
import { isTrueFailure } from "./TrueFailure.ts"

const isConnected = ({ began, ended }: ObservedReader, order: number): boolean =>
  began.order < order && (ended === undefined || ended.order > order)

const wasParked = ({ commits }: Observed, { plan }: ObservedPlan): boolean =>
  commits.some(({ changes, plan_id }) => plan_id === plan.plan_id && changes.some(({ _tag }) => _tag === "Parked"))

/** Somebody left at some time, and then nobody was there; or nobody came to a plan that was taken over. */
const wasLeftAlone = (observed: Observed, plan: ObservedPlan, end: PlanEnd): boolean => {
  const readers = observed.readers.filter(({ plan_id }) => plan_id === plan.plan.plan_id)
  const departures = readers.flatMap((reader) => {
    const { ended, replica } = reader
    return ended !== undefined && ended.order < end.order ? [{ ...ended, replica }] : []
  })
  // Whoever had a reader asks the others who reads a parked plan.
  const asking = wasParked(observed, plan) ? departures.map(({ replica }) => replica) : []
  // Nobody tells, or hears, of a reader at another replica while one of the two is cut off.
  const isKnown = ({ replica, began }: ObservedReader) =>
    Array.from(new Set([replica, end.replica, ...asking])).every(
      (name) =>
        !wasHindered(observed, name, began.at, end.at) &&
        !observed.replicas.some((one) => one.replica === name && one.deaf.some(({ from }) => from < end.at))
    )
  // The gateway, or the network, has ended the stream of this reader, who learns it a moment later: behind the frames that it takes its time for.
  const isSentAway = ({ ended, frames, readMs }: ObservedReader) => {
    if (ended === undefined || ended.how === "done") return false
    const waiting = 1 + frames.filter(({ order }) => order > end.order).length
    return Math.abs(ended.at - end.at) < 100 + readMs * waiting
  }
  const others = readers.filter((reader) => isKnown(reader) && !isSentAway(reader))
  if (readers.length === 0) return true
  const { config, takeOvers } = observed
  const isUnread = takeOvers.some(
    ({ at, plan_id }) => plan_id === plan.plan.plan_id && at + Duration.toMillis(config.takeoverGrace) <= end.at
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
          other.created.order > plan.created.order &&
          other.created.order < end.order
      )
    case "shutdown":
      return observed.requests.some(
        ({ began, replica, what }) => what === "drain" && replica === end.replica && began.order < end.order
      )
  }
}

/** A plan says the truth about its end: an answer is what the provider said, an abort has the reason that it names. */
export const trueEnd = (observed: Observed): ReadonlyArray<string> =>
  observed.plans.flatMap((plan) => {
    const [end] = endsOf(observed, plan)
    if (end === undefined) return []
    const { outcome } = end
    if (outcome.state === "completed") {
      return isTrueAnswer(observed, plan, end, outcome.final)
        ? []
        : [
            `${named(plan)} answers "${outcome.final.text}" and stops for ${outcome.final.stop_reason}: its provider has not said so`
          ]
    }
    const { code, message, reason } = outcome.error
    const isTrue =
      reason === undefined ? isTrueFailure(observed, plan, end, code) : abortIsTrue(observed, plan, end, reason)
    return isTrue
      ? []
      : [`${named(plan)} ends at ${seconds(end.at)} with ${code} ${reason ?? ""}, which is not true: ${message}`]
  })
