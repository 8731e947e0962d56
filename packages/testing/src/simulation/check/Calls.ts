import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { isSettled } from "@bowline/domain/plan/Plan"
import type { Observed, ObservedCall, ObservedPlan } from "../scenario/Observed.ts"
import { replicaFitBy } from "./Fitness.ts"
import { endsOf, eventsOf, isOwners, named as nameOf, type PlanEnd, seconds } from "./PlanEnd.ts"

/** How long a cancel may take, in milliseconds: each has 5 s. */
const cancelWithin = 6_000

/** Every `task.started` has its one `task.finished` behind it, and what is told of a task is told in between. */
const tasksEnd = (events: ReadonlyArray<PlanEvent>, isOver: boolean): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const open = new Map<string, boolean>()
  for (const { data, event } of events) {
    if (
      event !== "task.started" &&
      event !== "task.progress" &&
      event !== "task.artifact" &&
      event !== "task.finished"
    ) {
      continue
    }
    const isOpen = open.get(data.task_id)
    if (event === "task.started" ? isOpen !== undefined : isOpen !== true) {
      const state = isOpen === undefined ? "unknown" : isOpen ? "open" : "over"
      problems.push(`${event} of task ${data.task_id}, which is ${state}`)
    }
    open.set(data.task_id, event !== "task.finished")
  }
  if (isOver) for (const [id, isOpen] of open) if (isOpen) problems.push(`task ${id} has no task.finished`)
  return problems
}

/** Whether the replica has waited for the call until its plan ended: it has had no result. */
const isAwaited = ({ commits }: Observed, { began, task_id }: ObservedCall, { order }: PlanEnd): boolean =>
  began.order < order &&
  !commits.some(
    (commit) =>
      commit.order < order &&
      commit.changes.some((change) => change._tag === "TaskFinished" && change.task_id === task_id)
  )

/** Whether its work elsewhere goes on when its plan ends, and whoever ends the plan knows it: it is stored, or it can be named there. */
const isLeftOpen = (observed: Observed, call: ObservedCall, end: PlanEnd): boolean =>
  (call.remote_task_id !== null || (call.named?.replica === end.replica && isAwaited(observed, call, end))) &&
  (call.ended === undefined || call.ended.order > end.order)

/** Whether the way to its peer took too long then: its card, which says how to speak to it, came late or not at all, or each way was slow. */
const isFar = ({ faults }: Observed, tool: string, from: number, to: number): boolean =>
  faults.some(({ fault, ...span }) => {
    const isSlow = fault._tag === "NetworkSlow" && 4 * fault.delayMs > cancelWithin - 1_000
    return (isSlow || (fault._tag === "Card" && tool.startsWith("auto_"))) && span.from < to && span.to > from
  })

const peersAreTold = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> => {
  const [end] = endsOf(observed, plan)
  if (end === undefined) return []
  return observed.calls
    .filter((call) => call.plan === plan.name && isLeftOpen(observed, call, end))
    .filter(({ cancels, ended, named, tool }) => {
      // Who settles a plan tells its peers. If it dies at that, nobody does.
      const by = replicaFitBy(observed, end.replica, Math.max(end.at, named?.at ?? 0), cancelWithin)
      return (
        by !== Infinity &&
        !isFar(observed, tool, end.at, by) &&
        !cancels.some(({ at }) => at <= by) &&
        (ended?.at ?? Infinity) > by
      )
    })
    .map(({ key, tool }) => `${tool} is not told to cancel call ${key}, though the plan ended at ${seconds(end.at)}`)
}

/** A server that works on a call whose connection is lost is told to cancel it, unless the replica dies at that. */
const lostCallsAreCancelled = (observed: Observed): ReadonlyArray<string> =>
  observed.resets.flatMap(({ at, call: lost, order, replica }) => {
    const by = replicaFitBy(observed, replica, at, cancelWithin)
    return observed.calls
      .filter(({ began, key, named }) => key === lost && named?.replica === replica && began.order < order)
      .filter(({ cancels, ended }) => (ended?.at ?? Infinity) > by && !cancels.some((cancel) => cancel.at <= by))
      .map(({ key, tool }) => `${tool} is not told to cancel call ${key}, whose connection was lost at ${seconds(at)}`)
  })

/** No call twice, and no id for two calls. A call of an idempotent tool may come again: with the same id. */
const callsAreOnce = (calls: ReadonlyArray<ObservedCall>): ReadonlyArray<string> => {
  const byKey = new Map<string, ObservedCall>()
  const byId = new Map<string, ObservedCall>()
  return calls.flatMap((call) => {
    const { began, isIdempotent, key, task_id, tool } = call
    const [sameKey, sameId] = [byKey.get(key), byId.get(task_id)]
    byKey.set(key, call)
    byId.set(task_id, call)
    if (sameId !== undefined && sameId.key !== key) return [`the calls ${sameId.key} and ${key} are both ${task_id}`]
    if (sameKey === undefined) return []
    const times = `at ${seconds(sameKey.began.at)} and at ${seconds(began.at)}`
    if (sameKey.task_id !== task_id) return [`call ${key} came as ${sameKey.task_id} and as ${task_id}, ${times}`]
    return isIdempotent ? [] : [`call ${key} of ${tool}, which is not idempotent, came ${times}`]
  })
}

/** The intent of a call is stored before the call leaves. */
const intentsAreStored = ({ calls, commits }: Observed): ReadonlyArray<string> => {
  const intents = new Map<string, number>()
  for (const { changes, order } of commits) {
    for (const change of changes) {
      if (change._tag === "TaskStarted" && !intents.has(change.task_id)) intents.set(change.task_id, order)
    }
  }
  return calls.flatMap(({ began, key, task_id }) =>
    (intents.get(task_id) ?? Infinity) < began.order
      ? []
      : [`call ${key} was made at ${seconds(began.at)}, before its intent was stored`]
  )
}

/** Only the process that has a plan calls tools for it: one that was frozen may have lost it. */
const ownersCall = (observed: Observed): ReadonlyArray<string> =>
  observed.calls.flatMap((call) => {
    const plan = observed.plans.find(({ name }) => name === call.plan)
    // A peer does not see who has sent what it gets.
    return plan === undefined || call.replica === "" || isOwners(observed, plan, call)
      ? []
      : [`${call.replica} makes call ${call.key} at ${seconds(call.began.at)}, when another process has its plan`]
  })

/**
 * Every call has its result, every `task.started` its `task.finished`; a tool that is not idempotent is dispatched at most once; a peer
 * that runs a task of an ended plan, or a call whose connection was lost, was told to cancel; who has lost a plan calls nothing for it.
 */
export const calls = (observed: Observed): ReadonlyArray<string> => [
  ...observed.plans.flatMap((plan) => {
    const isOver = isSettled(plan.plan)
    const running = plan.tasks.filter(({ state }) => isOver && state === "running")
    return [
      ...tasksEnd(eventsOf(plan), isOver),
      ...running.map(({ task_id }) => `task ${task_id} is stored as running`),
      ...peersAreTold(observed, plan)
    ].map((what) => `${nameOf(plan)}: ${what}`)
  }),
  ...callsAreOnce(observed.calls),
  ...lostCallsAreCancelled(observed),
  ...intentsAreStored(observed),
  ...ownersCall(observed)
]
