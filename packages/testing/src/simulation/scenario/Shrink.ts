import { Struct } from "effect"
import type { Fault, Scenario, ScenarioPlan, ScenarioStep } from "./Scenario.ts"

/** The list without a part of it: first without its halves, in the end without single members. */
function* without<A>(list: ReadonlyArray<A>): Generator<ReadonlyArray<A>> {
  for (let size = list.length; size >= 1; size = Math.floor(size / 2)) {
    for (let from = 0; from < list.length; from += size) yield [...list.slice(0, from), ...list.slice(from + size)]
  }
}

/** The list with one of its members made smaller. */
function* withSmaller<A>(list: ReadonlyArray<A>, smaller: (one: A) => Iterable<A>): Generator<ReadonlyArray<A>> {
  for (const [index, one] of list.entries()) {
    for (const less of smaller(one)) yield list.with(index, less)
  }
}

/** The same with one of these numbers halved; nothing where they are all 1 at most. */
const sooner = <A extends object>(value: A, times: ReadonlyArray<string>): ReadonlyArray<A> =>
  Object.entries(value).flatMap(([key, given]: [string, unknown]) =>
    times.includes(key) && typeof given === "number" && given > 1 ? [{ ...value, [key]: Math.floor(given / 2) }] : []
  )

function* smallerSteps(step: ScenarioStep): Generator<ScenarioStep> {
  for (const calls of without(step.calls)) yield { ...step, calls }
  if (step.words > 1) yield { ...step, words: 1 }
  yield* sooner(step, ["pauseMs"])
  for (const calls of withSmaller(step.calls, (call) => sooner(call, ["ms"]))) yield { ...step, calls }
}

/** A plan keeps its last step, which has its answer. */
function* smallerPlans(plan: ScenarioPlan): Generator<ScenarioPlan> {
  const { acts, steps } = plan
  for (const fewer of without(steps.slice(0, -1))) yield { ...plan, steps: [...fewer, ...steps.slice(-1)] }
  for (const fewer of without(acts)) yield { ...plan, acts: fewer }
  if (plan.budget !== undefined) yield Struct.omit(plan, ["budget"])
  if (plan.toolTimeoutMs !== undefined) yield Struct.omit(plan, ["toolTimeoutMs"])
  if (plan.json !== undefined) yield Struct.omit(plan, ["json"])
  if (plan.ballast > 0) yield { ...plan, ballast: 0 }
  for (const less of withSmaller(steps, smallerSteps)) yield { ...plan, steps: less }
  yield* sooner(plan, ["at", "readMs"])
  for (const less of withSmaller(acts, (act) => sooner(act, ["at"]))) yield { ...plan, acts: less }
}

/** The same with kills after fewer tasks: where there are fewer plans, the same moment comes sooner. */
function* killedSooner(scenario: Scenario): Generator<Scenario> {
  yield scenario
  for (const part of [0.8, 0.6, 0.4, 0.2]) {
    const faults = scenario.faults.map((fault) =>
      fault._tag === "Kill" && fault.tasks > 0 ? { ...fault, tasks: Math.floor(fault.tasks * part) } : fault
    )
    if (faults.some((fault, index) => fault !== scenario.faults[index])) yield { ...scenario, faults }
  }
}

const smallerFaults = (fault: Fault): ReadonlyArray<Fault> =>
  sooner(fault, ["at", "ms", "delayMs", "backMs", "tasks", "byMs"])

/** What names a replica that is there no more names the first one. */
const onFewer = <A extends object>(value: A, replicas: number): A =>
  "replica" in value && typeof value.replica === "number" && value.replica >= replicas
    ? { ...value, replica: 0 }
    : value

const withFewerReplicas = ({ faults, plans, replicas, ...rest }: Scenario): Scenario => {
  const fewer = replicas - 1
  return {
    ...rest,
    replicas: fewer,
    plans: plans.map((plan) => ({ ...onFewer(plan, fewer), acts: plan.acts.map((act) => onFewer(act, fewer)) })),
    faults: faults.map((fault) => onFewer(fault, fewer))
  }
}

/** Scenarios that are a little smaller: fewer plans first, then fewer faults, then shorter ones. */
function* smaller(scenario: Scenario): Generator<Scenario> {
  for (const plans of without(scenario.plans)) if (plans.length > 0) yield* killedSooner({ ...scenario, plans })
  for (const faults of without(scenario.faults)) yield { ...scenario, faults }
  if (scenario.day !== undefined) yield Struct.omit(scenario, ["day"])
  if (scenario.replicas > 1) yield withFewerReplicas(scenario)
  for (const plans of withSmaller(scenario.plans, smallerPlans)) yield { ...scenario, plans }
  for (const faults of withSmaller(scenario.faults, smallerFaults)) yield { ...scenario, faults }
}

/**
 * The smallest scenario that is found to fail still, with fewer plans, fewer faults and shorter waits. `fails` runs a scenario; it is
 * called `tries` times at most. The given scenario fails.
 */
export const shrink = async (
  scenario: Scenario,
  fails: (scenario: Scenario) => Promise<boolean>,
  tries = 300
): Promise<Scenario> => {
  let left = tries
  const firstFailing = async (candidates: Iterable<Scenario>): Promise<Scenario | undefined> => {
    for (const candidate of candidates) {
      if (left-- <= 0) return undefined
      if (await fails(candidate)) return candidate
    }
    return undefined
  }
  let smallest = scenario
  for (let next: Scenario | undefined = scenario; next !== undefined;) {
    smallest = next
    next = await firstFailing(smaller(smallest))
  }
  return smallest
}
