import type { Observed, ObservedPlan } from "../Observed.ts"
import { anyFitBy, hinderedAt, takeOverMs } from "./Fitness.ts"
import { endsOf, named, ownersOf, seconds } from "./PlanEnd.ts"

/** How late behind its deadline a plan may end, in milliseconds. */
const deadlineSlack = 1_000

/** When the plan has to be over: by its deadline, or when it could be taken over from the last replica that was hindered. */
const endsBy = (observed: Observed, plan: ObservedPlan, ended: number): number => {
  const owners = ownersOf(observed, plan)
  const skew = Math.max(
    0,
    ...observed.replicas.flatMap(({ replica, skewMs }) =>
      owners.some((owner) => owner.replica === replica) ? [skewMs] : []
    )
  )
  const troubles = owners.flatMap(({ at, replica }) => hinderedAt(observed, replica, at, ended))
  return Math.max(
    plan.deadline + skew + deadlineSlack,
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
    const next = owners[index + 1]?.at ?? end?.at ?? observed.end
    if (died === undefined || died.at < at || died.at >= next) return []
    const by = anyFitBy(observed, died.at, takeOverMs(observed))
    return next <= by
      ? []
      : [`${replica} is ${died.how} at ${seconds(died.at)}, and nobody takes it over by ${seconds(by)}`]
  })
}

/** The session takes the next question: what is asked when all is over is answered. */
const isAnswered = ({ isProbe, plan }: ObservedPlan): ReadonlyArray<string> =>
  isProbe && plan.state !== "completed"
    ? [`was asked when all was over, and is ${plan.state}: ${plan.error?.message ?? ""}`]
    : []

/** Plans end within the deadline plus 1 s, and within the lease's time plus 10 s after a death; the session takes the next question. */
export const inTime = (observed: Observed): ReadonlyArray<string> =>
  observed.plans.flatMap((plan) =>
    [...endsInTime(observed, plan), ...isTakenOver(observed, plan), ...isAnswered(plan)].map(
      (what) => `${named(plan)} ${what}`
    )
  )
