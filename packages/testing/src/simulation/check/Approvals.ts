import type { TaskId } from "@bowline/domain/tool/TaskState"
import { resolve } from "@bowline/domain/plan/PlanRequest"
import type { Observed, ObservedCommit, ObservedDecision, ObservedPlan } from "../scenario/Observed.ts"
import { anyFitBy, replicaFitBy, takeOverMs } from "./Fitness.ts"
import { hasExpired } from "./Parking.ts"
import { endsOf, eventsOf, named, ownersOf, type PlanOwner, seconds } from "./PlanEnd.ts"

/** When calls began to wait for a decision, by their ids: the orders of the writes that say so. */
const requestedIn = ({ commits }: Observed): ReadonlyMap<TaskId, number> => {
  const requested = new Map<TaskId, number>()
  for (const { changes, order } of commits) {
    for (const change of changes) {
      if (change._tag !== "WaitOpened" || change.kind !== "approval" || requested.has(change.task_id)) continue
      requested.set(change.task_id, order)
    }
  }
  return requested
}

/** Whether the decision came when the wait was over: it stands as rejected. */
const cameLate = (observed: Observed, decision: ObservedDecision): boolean => {
  const { asked, stands, task_id } = decision
  const isIts = ({ changes }: ObservedCommit) =>
    changes.some((change) => change._tag === "WaitOpened" && change.task_id === task_id)
  const of = observed.commits.find(isIts)?.plan_id
  const plan = observed.plans.find((one) => one.plan.plan_id === of)
  return (
    asked === "approve" && stands === "reject" && plan !== undefined && hasExpired(observed, plan, task_id, decision)
  )
}

/** The first decision about each call. */
const firstOf = (observed: Observed): ReadonlyMap<TaskId, ObservedDecision> => {
  const first = new Map<TaskId, ObservedDecision>()
  for (const decision of observed.decisions) {
    if (first.has(decision.task_id)) continue
    first.set(decision.task_id, cameLate(observed, decision) ? { ...decision, asked: "reject" } : decision)
  }
  return first
}

type First = ReturnType<typeof firstOf>

/** A call that waits begins only behind a stored approve; one that its plan's caller has to approve does wait. */
const callsAreApproved = (observed: Observed, first: First): ReadonlyArray<string> => {
  const requested = requestedIn(observed)
  return observed.calls.flatMap(({ began, isFree, key, plan: name, task_id }) => {
    const when = `call ${key} is made at ${seconds(began.at)}`
    const plan = observed.plans.find((one) => one.name === name)
    const waitedFrom = requested.get(task_id)
    if (waitedFrom === undefined || waitedFrom > began.order) {
      const isAsked = plan !== undefined && resolve(plan.request).preferences.approval === "always" && !isFree
      return isAsked ? [`${when}, and nobody was asked to approve it`] : []
    }
    const decision = first.get(task_id)
    if (decision === undefined || decision.order > began.order) return [`${when}, before anybody has decided about it`]
    return decision.asked === "approve" ? [] : [`${when}, though it was rejected at ${seconds(decision.at)}`]
  })
}

/** What is told of a decision is what was decided first; a call that was rejected ends as that, or with its plan. */
const firstIsTold = (observed: Observed, plan: ObservedPlan, first: First): ReadonlyArray<string> => {
  const isCompleted = endsOf(observed, plan)[0]?.outcome.state === "completed"
  const isExpired = (index: number, task: TaskId) => {
    const write = observed.commits.find(
      ({ events, plan_id }) => plan_id === plan.plan.plan_id && events !== undefined && index < events.last
    )
    return write !== undefined && hasExpired(observed, plan, task, write)
  }
  return eventsOf(plan).flatMap(({ data, event }, index) => {
    if (event !== "approval.resolved" && event !== "task.finished") return []
    const decided = first.get(data.task_id)?.asked
    if (event === "approval.resolved") {
      const isTold = data.decision === (decided ?? (isExpired(index, data.task_id) ? "reject" : undefined))
      return isTold ? [] : [`its stream tells ${data.decision} of ${data.task_id}, not ${decided}`]
    }
    const mayBe = data.state === "rejected" || (data.state === "interrupted" && !isCompleted)
    return decided === "reject" && !mayBe ? [`call ${data.task_id}, which was rejected, is ${data.state}`] : []
  })
}

/** How soon a plan hears of a decision whose notice is lost, in milliseconds. An answer of the store that is lost costs another such time. */
const pollMs = 5_000
const slack = 1_000

/** Since when a replica that has the plan from `since` on waits for the decision: it says so when it begins. */
const waitsSince = ({ commits }: Observed, { plan }: ObservedPlan, task: TaskId, { order, replica }: PlanOwner) =>
  commits.find(
    (commit) =>
      commit.plan_id === plan.plan_id &&
      commit.replica === replica &&
      commit.order > order &&
      commit.changes.some((change) =>
        change._tag === "WaitOpened"
          ? change.task_id === task
          : change._tag === "Progressed" && change.stage === "approval"
      )
  )

/** When a replica that has the plan parks it; infinite if it does not. */
const parkedBy = ({ commits }: Observed, { plan }: ObservedPlan, { order, replica }: PlanOwner): number =>
  commits.find(
    (commit) =>
      commit.plan_id === plan.plan_id &&
      commit.replica === replica &&
      commit.order > order &&
      commit.changes.some(({ _tag }) => _tag === "Parked")
  )?.at ?? Infinity

/** A plan that waits is told a decision by a notice, or else by its next poll, unless something keeps its replica from that. */
const isToldInTime = (observed: Observed, plan: ObservedPlan, first: First): ReadonlyArray<string> => {
  const end = endsOf(observed, plan)[0]?.at ?? observed.end
  const owners = ownersOf(observed, plan)
  const told = new Map<string, number>()
  for (const [index, { data, event }] of eventsOf(plan).entries()) {
    if (event !== "approval.resolved") continue
    const write = observed.commits.find(
      ({ events, plan_id }) =>
        plan_id === plan.plan.plan_id && events !== undefined && events.first <= index + 1 && index < events.last
    )
    if (write !== undefined) told.set(data.task_id, write.at)
  }
  const asked = observed.commits.flatMap(({ changes, plan_id }) =>
    changes.flatMap((change) =>
      plan_id === plan.plan.plan_id && change._tag === "WaitOpened" && change.kind === "approval"
        ? [change.task_id]
        : []
    )
  )
  return Array.from(new Set(asked)).flatMap((task) => {
    const decided = first.get(task)
    if (decided === undefined) return []
    const isLate = owners.some((owner, index) => {
      const waits = waitsSince(observed, plan, task, owner)
      if (waits === undefined) return false
      const since = Math.max(waits.at, decided.at)
      const until = Math.min(told.get(task) ?? Infinity, owners[index + 1]?.at ?? Infinity, end)
      const parkedAt = parkedBy(observed, plan, owner)
      // No replica has the plan: one takes it over that is well for long enough.
      if (parkedAt <= until) return anyFitBy(observed, Math.max(since, parkedAt), takeOverMs(observed)) < until
      const lost = observed.lostAnswers.filter(({ replica }) => replica === owner.replica).length
      return replicaFitBy(observed, owner.replica, since, (1 + lost) * pollMs + slack) < until
    })
    const when = told.get(task)
    return isLate
      ? [
          `the decision about ${task} at ${seconds(decided.at)} is told at ${when === undefined ? "no time" : seconds(when)}`
        ]
      : []
  })
}

/**
 * A call that waits begins only behind a stored approve, a rejected one never; the first decision stands, and its plan is told in time.
 */
export const approvals = (observed: Observed): ReadonlyArray<string> => {
  const first = firstOf(observed)
  return [
    ...callsAreApproved(observed, first),
    ...observed.decisions.flatMap(({ at, stands, task_id }) => {
      const decided = first.get(task_id)?.asked
      return stands === decided ? [] : [`${stands} stands of ${task_id} at ${seconds(at)}, though it was ${decided}`]
    }),
    ...observed.plans.flatMap((plan) =>
      [...firstIsTold(observed, plan, first), ...isToldInTime(observed, plan, first)].map(
        (what) => `${named(plan)}: ${what}`
      )
    )
  ]
}
