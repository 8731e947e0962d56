import { resolve } from "@bowline/domain/plan/PlanRequest"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import type { Moment, Observed, ObservedCommit, ObservedPlan } from "../scenario/Observed.ts"
import { aftermath, anyFitBy, takeOverMs, wasHindered } from "./Fitness.ts"
import { endsOf, isOwners, named, seconds } from "./PlanEnd.ts"

/** How soon a plan is taken over that an entry has woken, in milliseconds: whoever hears of it does so at once, the others look every 3 s. */
const wakesWithin = 5_000

/** How early a wait may end by the clock of the store, in milliseconds. */
const slack = 1_000

/** How long the write that tells of a wait may take where something hinders it, in milliseconds. */
const storePatience = 30_000

/** The write that tells that the call has begun to wait for what it waits for last, before then. */
const opened = ({ commits }: Observed, task: TaskId, { order }: Moment): ObservedCommit | undefined =>
  commits.findLast(
    (commit) =>
      commit.order < order && commit.changes.some((change) => change._tag === "WaitOpened" && change.task_id === task)
  )

const limitOf = ({ request }: ObservedPlan): number => resolve(request).preferences.wait_timeout_ms

/** Whether the call has waited for somebody by then for as long as it may. */
export const hasExpired = (observed: Observed, plan: ObservedPlan, task: TaskId, by: Moment): boolean => {
  const since = opened(observed, task, by)
  if (since === undefined) return false
  const isSlow = wasHindered(observed, since.replica, since.at - aftermath(observed), since.at)
  return by.at >= since.at + limitOf(plan) - slack - (isSlow ? storePatience : 0)
}

/** By when a wait has ended for its plan that began at this time, in milliseconds. The replica that ends waits may have to be another one first. */
export const expiresBy = (observed: Observed, plan: ObservedPlan, since: number): number =>
  anyFitBy(observed, since + limitOf(plan), takeOverMs(observed))

/** The calls that wait at this time, and since when. */
const waitingAt = ({ commits }: Observed, { plan }: ObservedPlan, { order }: { readonly order: number }) => {
  const waiting = new Map<TaskId, number>()
  for (const commit of commits) {
    if (commit.plan_id !== plan.plan_id || commit.order > order) continue
    for (const change of commit.changes) {
      if (change._tag === "WaitOpened") waiting.set(change.task_id, commit.at)
      if (change._tag === "TaskStarted" || change._tag === "TaskFinished") waiting.delete(change.task_id)
    }
  }
  return waiting
}

/** Whether any replica was hindered then: another one may have to do its part first. */
const isTroubled = (observed: Observed, from: number, to: number): boolean =>
  observed.replicas.some(
    ({ deaf, replica }) =>
      wasHindered(observed, replica, from, to) || deaf.some((span) => span.from < to && span.to > from)
  )

/** A plan that is parked is taken over when somebody has said what one of its calls waits for, and when the first wait is over. */
const isWoken = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> =>
  plan.parked.flatMap((span) => {
    const waiting = waitingAt(observed, plan, span)
    const settled = [
      ...observed.given.flatMap(({ accepted, task_id }) =>
        accepted === undefined ? [] : [{ at: accepted.at, task_id }]
      ),
      ...observed.decisions
    ].flatMap(({ at, task_id }) => (waiting.has(task_id) && at >= span.from ? [at] : []))
    const entered = Math.min(...settled)
    const isLate = entered < span.to && anyFitBy(observed, entered, wakesWithin) < Math.min(span.to, observed.end)
    const by = expiresBy(observed, plan, Math.min(...waiting.values()))
    const isForgotten = by < Math.min(span.to, observed.end)
    return [
      ...(isLate && !isTroubled(observed, entered - aftermath(observed), span.to)
        ? [
            `is parked at ${seconds(span.from)}, and what it waits for comes at ${seconds(entered)}: it wakes at ${seconds(span.to)}`
          ]
        : []),
      ...(isForgotten
        ? [`is parked at ${seconds(span.from)}, and still at ${seconds(by)}, when a wait of it is over`]
        : [])
    ]
  })

/** Nothing of a parked plan runs: nobody asks a provider for it, or calls a tool. Who had it before, and was away, may not know that yet: it may ask. */
const isIdle = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> =>
  plan.parked.flatMap((span) => {
    const taken = observed.takeOvers.find(({ order, plan_id }) => plan_id === plan.plan.plan_id && order > span.order)
    const until = taken?.order ?? endsOf(observed, plan)[0]?.order ?? Infinity
    const isIn = ({ began }: { readonly began: Moment }) => began.order > span.order && began.order < until
    const asked = observed.attempts.filter(
      (attempt) =>
        attempt.plan === plan.name &&
        isIn(attempt) &&
        (isOwners(observed, plan, attempt) ||
          !wasHindered(observed, attempt.replica, attempt.began.at - aftermath(observed), attempt.began.at))
    )
    const called = observed.calls.filter((call) => call.plan === plan.name && isIn(call))
    return [...asked, ...called].map(
      ({ began }) => `is parked at ${seconds(span.from)}, and works at ${seconds(began.at)}`
    )
  })

/** A plan that is parked does nothing, and wakes in time. */
export const parking = (observed: Observed): ReadonlyArray<string> =>
  observed.plans.flatMap((plan) =>
    [...isWoken(observed, plan), ...isIdle(observed, plan)].map((what) => `${named(plan)} ${what}`)
  )
