import { Duration } from "effect"
import type { Observed, ObservedPlan, ObservedReader } from "../scenario/Observed.ts"
import { aftermath, wasHindered } from "./Fitness.ts"
import { endsOf, named, ownersOf, seconds } from "./PlanEnd.ts"

/** How soon the end of the last connection ends its plan on whatever replica, in milliseconds. */
const leaveReach = 500

/** How much later that ends one that is parked, in milliseconds: the other replicas have 6 s to say that they read it, and one takes it over. */
const wakeReach = 10_000

/** How long a connection may be silent, in milliseconds: a ping comes every 10 s, and 1 s later behind frames that a protocol does not show. */
const maxSilence = 11_500

const isDeaf = (observed: Observed, name: string, from: number, to: number): boolean =>
  observed.replicas.some(
    ({ deaf, replica }) => replica === name && deaf.some((span) => span.from < to && span.to > from)
  )

/** When a plan ends that has to soon behind this time, and does not though nothing keeps that from it; undefined if all is well. */
export const endsLate = (observed: Observed, plan: ObservedPlan, from: number): number | undefined => {
  const ended = endsOf(observed, plan)[0]?.at ?? observed.end
  const { plan_id } = plan.plan
  const readers = observed.readers.filter((reader) => reader.plan_id === plan_id)
  const asks = observed.requests.filter((request) => request.what === "ask" && request.plan === plan.name)
  const places = [...ownersOf(observed, plan), ...readers, ...asks].map(({ replica }) => replica)
  const isHindered = places.some(
    (name) =>
      wasHindered(observed, name, from - aftermath(observed), ended) ||
      isDeaf(observed, name, from - aftermath(observed), ended)
  )
  return ended <= from + leaveReach || isHindered ? undefined : ended
}

/** A plan that ends with its readers ends as soon as the last one has left, unless something kept that from it. */
const endsUnread = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> => {
  const readers = observed.readers.filter(({ plan_id }) => plan_id === plan.plan.plan_id)
  const asks = observed.requests.filter(({ plan: of, what }) => what === "ask" && of === plan.name)
  const isRead = readers.length > 0 || asks.some(({ hasLeft }) => hasLeft === true)
  const isLeft = isRead && readers.every(({ ended }) => ended?.how === "left")
  const { preferences } = plan.request
  if (preferences.on_disconnect !== "cancel" || !isLeft) return []
  const grace = preferences.disconnect_grace_ms ?? Duration.toMillis(observed.config.streamGrace)
  const left = Math.max(...[...readers, ...asks].map(({ ended }) => ended?.at ?? observed.end))
  const isParked = plan.parked.some(({ from, to }) => from <= left + grace && to > left)
  const ended = endsLate(observed, plan, left + grace + (isParked ? wakeReach : 0))
  return ended === undefined ? [] : [`its last reader leaves at ${seconds(left)}, and it ends at ${seconds(ended)}`]
}

/** A connection that is open says so. */
const isHeard = (observed: Observed, { began, ended, frames, pings, reader, replica }: ObservedReader) => {
  const heard = [...frames, ...pings].map(({ at }) => at).sort((one, other) => one - other)
  const moments = [began.at, ...heard, ended?.at ?? observed.end]
  return moments.flatMap((to, index) => {
    const from = moments[index - 1] ?? to
    return to - from <= maxSilence || wasHindered(observed, replica, from, to)
      ? []
      : [`${reader} hears nothing of ${replica} from ${seconds(from)} to ${seconds(to)}`]
  })
}

/** A plan notices that nobody reads it any more, and a reader that its connection is still there. */
export const readers = (observed: Observed): ReadonlyArray<string> => [
  ...observed.plans.flatMap((plan) => endsUnread(observed, plan).map((what) => `${named(plan)}: ${what}`)),
  ...observed.readers.flatMap((reader) => isHeard(observed, reader))
]
