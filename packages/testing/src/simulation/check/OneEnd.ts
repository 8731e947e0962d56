import { isSettled } from "@bowline/domain/plan/Plan"
import { Duration } from "effect"
import type { Moment, Observed, ObservedPlan } from "../scenario/Observed.ts"
import { replicaFitBy, wasHindered } from "./Fitness.ts"
import { endsOf, eventsOf, named, type PlanEnd, seconds } from "./PlanEnd.ts"

/** How soon an end reaches all that runs for its plan, in milliseconds. */
const reach = 100

/** One beginning and one end, where they belong, and the same one as in the plan's row. */
const streamHasOneEnd = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> => {
  const events = eventsOf(plan)
  const places = (...names: ReadonlyArray<string>) =>
    events.flatMap(({ event }, index) => (names.includes(event) ? [index] : [])).join()
  const problems: Array<string> = []
  const expect = (what: string, found: string, expected: string) => {
    if (found !== expected) problems.push(`${what} at [${found}] of ${events.length} frames, not at [${expected}]`)
  }
  expect("session", places("session"), "0")
  const isOver = isSettled(plan.plan)
  expect("final or error", places("final", "error"), isOver ? `${events.length - 2}` : "")
  expect("done", places("done"), isOver ? `${events.length - 1}` : "")
  const end = events.at(-2)
  if (isOver && (end?.event === "final") !== (plan.plan.state === "completed")) {
    problems.push(`the stream ends with ${end?.event ?? "nothing"}, but the plan is ${plan.plan.state}`)
  }
  const ends = endsOf(observed, plan)
  if (ends.length > (isOver ? 1 : 0)) {
    const told = ends.map(({ at, outcome, replica }) => `${outcome.state} by ${replica} at ${seconds(at)}`)
    problems.push(`it ended ${ends.length} times: ${told.join(", ")}`)
  }
  return problems
}

/** What ran for a plan: on which replica, from when to when. */
interface Ran {
  readonly what: string
  readonly replica: string
  readonly began: Moment
  readonly ended: Moment | undefined
}

/** Until when a replica may still run something of a plan: one that was frozen or away has to learn first that the plan is over. */
const runsUntil = (observed: Observed, { at, replica: settler }: PlanEnd, replica: string, since: number): number => {
  if (replica === settler) return replicaFitBy(observed, replica, at, reach, "frozen")
  return wasHindered(observed, replica, since, at)
    ? replicaFitBy(observed, replica, at, Duration.toMillis(observed.config.leaseTtl) / 3 + 1_000)
    : at + reach
}

const nothingRunsOn = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> => {
  const [end] = endsOf(observed, plan)
  if (end === undefined) return []
  const attempts = observed.attempts
    .filter((attempt) => attempt.plan === plan.name)
    .map((attempt): Ran => ({ ...attempt, what: "a request to the provider" }))
  const calls = observed.calls
    .filter((call) => call.plan === plan.name && call.replica !== "")
    .map((call): Ran => ({ ...call, what: `the call ${call.key}` }))
  const late = [...attempts, ...calls].flatMap(({ began, ended, replica, what }) => {
    const until = runsUntil(observed, end, replica, plan.created.at)
    const to = ended?.at ?? Infinity
    if (to <= until) return []
    const when = `from ${seconds(began.at)} to ${to === Infinity ? "the end" : seconds(to)}`
    return [`${what} runs on ${replica} ${when}, though the plan ended at ${seconds(end.at)}`]
  })
  const written = observed.commits.filter(
    ({ changes, order, plan_id }) =>
      plan_id === plan.plan.plan_id && order > end.order && changes.every(({ _tag }) => _tag !== "Settled")
  )
  return [
    ...late,
    ...written.map(({ at, replica }) => `${replica} writes at ${seconds(at)}, behind the end at ${seconds(end.at)}`)
  ]
}

/** Exactly one end per plan; after it nothing of the plan runs: no fiber, socket, timer, lease, open task. */
export const oneEnd = (observed: Observed): ReadonlyArray<string> => [
  ...observed.plans.flatMap((plan) =>
    [...streamHasOneEnd(observed, plan), ...nothingRunsOn(observed, plan)].map((what) => `${named(plan)}: ${what}`)
  ),
  ...observed.left.map(({ detail, replica, what }) => `${what} on ${replica} is left at the end: ${detail}`)
]
