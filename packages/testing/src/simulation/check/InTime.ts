import type { Observed, ObservedPlan } from "../scenario/Observed.ts"
import { aftermath, anyFitBy, hinderedAt, takeOverMs, wasHindered, wayMs } from "./Fitness.ts"
import { askedAt, endsOf, named, ownersOf, seconds } from "./PlanEnd.ts"

/** How late behind its deadline a plan may end, in milliseconds. */
const deadlineSlack = 1_000

/** How soon another replica takes over what a process hands over that shuts down, in milliseconds: it looks every 3 s. */
const handOverMs = 5_000

/**
 * How much later a plan ends whose parking was stored late, in milliseconds: the time that is left is that of when it was to be parked. Only
 * what kept its replica from the store may be the reason.
 */
const parkedLateBy = (observed: Observed, { created, parked, plan, request }: ObservedPlan): number => {
  let late = 0
  let deadline = created.at + (request.preferences.timeout_ms ?? 0)
  for (const { at, changes, order, plan_id, replica } of observed.commits) {
    const change = changes.find(({ _tag }) => _tag === "Parked")
    if (plan_id !== plan.plan_id || change?._tag !== "Parked") continue
    const proposed = deadline - change.leftMs
    const by = wasHindered(observed, replica, proposed, at) ? Math.max(0, at - proposed) : 0
    late += by
    deadline += by + ((parked.find((span) => span.order === order)?.to ?? at) - at)
  }
  return late
}

/** When the plan has to be over: by its deadline, or when it could be taken over from the last replica that was hindered, or that has handed it over. */
const endsBy = (observed: Observed, plan: ObservedPlan, ended: number): number => {
  // What nobody has stored yet, nobody takes over.
  const troubles = ownersOf(observed, plan).flatMap(({ at, replica }, index) =>
    hinderedAt(observed, replica, index === 0 ? askedAt(observed, plan) : at, ended).map((since) => Math.max(since, at))
  )
  // The time that is left, as the store tells it at a take-over, is as old as the store's answer.
  const ages = observed.takeOvers.flatMap(({ at, heard, plan_id }) =>
    plan_id === plan.plan.plan_id && heard !== undefined ? [heard - at] : []
  )
  const left = observed.commits.flatMap(({ at, changes, plan_id }) =>
    plan_id === plan.plan.plan_id && changes.some(({ _tag }) => _tag === "HandedOver") ? [at] : []
  )
  // Where the store is slow: what is on its way at the deadline, the look into the inbox, and the end, there and back.
  const ways = ownersOf(observed, plan).map(({ replica }) => 6 * wayMs(observed, replica, plan.deadline, ended))
  return Math.max(
    plan.deadline + parkedLateBy(observed, plan) + deadlineSlack + Math.max(0, ...ages) + Math.max(0, ...ways),
    ...left.map((at) => anyFitBy(observed, at, handOverMs)),
    ...troubles.map((at) => anyFitBy(observed, at, takeOverMs(observed)))
  )
}

const endsInTime = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> => {
  const ended = endsOf(observed, plan)[0]?.at ?? observed.end
  const by = endsBy(observed, plan, ended)
  return ended <= by ? [] : [`ends at ${seconds(ended)}, though it had to by ${seconds(by)}`]
}

/** Whoever had the plan last and died left it to somebody who took it over in time. */
const isTakenOver = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> => {
  const owners = ownersOf(observed, plan)
  const [end] = endsOf(observed, plan)
  return owners.flatMap(({ at, replica }, index) => {
    const died = observed.replicas.find((one) => one.replica === replica)?.ended
    // What is parked is nobody's.
    const left = plan.parked.find(({ from }) => from >= at)?.from ?? Infinity
    const next = Math.min(owners[index + 1]?.at ?? end?.at ?? observed.end, left)
    if (died === undefined || died.at < at || died.at >= next) return []
    // What is on its way when it dies may renew its lease.
    const last = died.at + wayMs(observed, replica, died.at - 1, died.at + 1)
    const by = anyFitBy(observed, last, takeOverMs(observed))
    return next <= by
      ? []
      : [`${replica} is ${died.how} at ${seconds(died.at)}, and nobody takes it over by ${seconds(by)}`]
  })
}

/** How soon a cancel reaches its plan on whatever replica, in milliseconds; and if its notice is lost. */
const cancelReach = { heard: 500, lost: 6_000 }

/** Whether nobody has the plan at this time: it was handed over, or parked, and somebody has to take it over first. */
const isNobodys = (observed: Observed, { created, plan }: ObservedPlan, at: number): boolean => {
  const left = observed.commits.findLast(
    (commit) =>
      commit.plan_id === plan.plan_id &&
      commit.at <= at &&
      commit.changes.some(({ _tag }) => _tag === "HandedOver" || _tag === "Parked")
  )
  const taken = observed.takeOvers.findLast((one) => one.plan_id === plan.plan_id && one.at <= at)
  return left !== undefined && left.order > (taken ?? created).order
}

/** Whether a plan ends at once that somebody has ended at one of these replicas at that time, unless something kept it from there. */
const isReached = (observed: Observed, plan: ObservedPlan, from: number, replicas: ReadonlyArray<string>): boolean => {
  const ended = endsOf(observed, plan)[0]?.at ?? observed.end
  if (ended <= from + cancelReach.heard) return true
  if (isNobodys(observed, plan, from + cancelReach.heard) && ended <= anyFitBy(observed, from, handOverMs)) return true
  const to = from + cancelReach.lost
  const asked = [...ownersOf(observed, plan).map(({ replica }) => replica), ...replicas]
  const isDeaf = observed.replicas.some(
    (one) =>
      asked.includes(one.replica) && one.deaf.some((span) => span.from < to && span.to > from - aftermath(observed))
  )
  // The store did what was asked, and its answer was lost: it is asked again, a pause later.
  const isUnanswered = observed.faults.some(
    ({ fault, from: struck }) => fault._tag === "AnswerLost" && struck >= from - aftermath(observed) && struck <= to
  )
  return (
    ((isDeaf || isUnanswered) && ended <= to) ||
    asked.some((name) => wasHindered(observed, name, from - aftermath(observed), to))
  )
}

const endOf = (observed: Observed, plan: ObservedPlan): string => seconds(endsOf(observed, plan)[0]?.at ?? observed.end)

/** A cancel ends its plan, wherever it runs. */
const isCancelled = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> =>
  observed.requests.flatMap(({ began, isRefused, plan: of, replica, what }) =>
    what !== "cancel" || of !== plan.name || isRefused === true || isReached(observed, plan, began.at, [replica])
      ? []
      : [`is cancelled at ${seconds(began.at)}, and ends at ${endOf(observed, plan)}`]
  )

/** A plan that interrupts ends the older ones of its session, wherever they run. */
const isSuperseded = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> =>
  observed.plans.flatMap((newer) => {
    const { at, order } = newer.created
    const isNewer = newer.plan.session_id === plan.plan.session_id && order > plan.created.order
    if (!isNewer || newer.request.preferences.on_busy !== "interrupt") return []
    const owners = ownersOf(observed, newer).map(({ replica }) => replica)
    return isReached(observed, plan, at, owners)
      ? []
      : [`is interrupted by ${newer.name} at ${seconds(at)}, and ends at ${endOf(observed, plan)}`]
  })

/** The session takes the next question: what is asked when all is over is answered. */
const areAnswered = ({ plans, probes }: Observed): ReadonlyArray<string> =>
  probes.flatMap((name) => {
    const plan = plans.find((one) => one.name === name)?.plan
    return plan?.state === "completed"
      ? []
      : [`${name} was asked when all was over, and is ${plan?.state ?? "refused"}: ${plan?.error?.message ?? ""}`]
  })

/** Plans end within the deadline plus 1 s, and within the lease's time plus 10 s after a death; the session takes the next question. */
export const inTime = (observed: Observed): ReadonlyArray<string> => [
  ...observed.plans.flatMap((plan) =>
    [
      ...endsInTime(observed, plan),
      ...isTakenOver(observed, plan),
      ...isCancelled(observed, plan),
      ...isSuperseded(observed, plan)
    ].map((what) => `${named(plan)} ${what}`)
  ),
  ...areAnswered(observed)
]
