import { add, empty, type Usage } from "@bowline/domain/plan/Usage"
import type { Observed, ObservedAttempt, ObservedPlan } from "../scenario/Observed.ts"
import { wasHindered } from "./Fitness.ts"
import { endsOf, isOwners, ownersOf, eventsOf, named } from "./PlanEnd.ts"
import { windowsAreEarned, windowsAreRight } from "./Windows.ts"

/** A gateway waits 1 s for the usage behind a finish. */
export const usageWithin = 900

/** How long an answer takes on a network that is not slow, and how long its usage takes until it is stored, in milliseconds. */
const keptWithin = 1_500

const total = (usages: ReadonlyArray<Usage>): Usage => usages.reduce(add, empty)

const same = (a: Usage, b: Usage): boolean =>
  a.input_tokens === b.input_tokens &&
  a.output_tokens === b.output_tokens &&
  a.cached_input_tokens === b.cached_input_tokens &&
  a.reasoning_tokens === b.reasoning_tokens

const told = (plan: ObservedPlan): Usage =>
  total(eventsOf(plan).flatMap(({ data, event }) => (event === "usage" ? [data] : [])))

/** The plan has used what its stream tells. */
const usageAddsUp = (plan: ObservedPlan): ReadonlyArray<string> => {
  const { final, usage } = plan.plan
  const sum = told(plan)
  return [
    ...(same(sum, usage) ? [] : [`its usage is ${JSON.stringify(usage)}, its stream tells ${JSON.stringify(sum)}`]),
    ...(final === null || same(final.usage, usage) ? [] : [`its final frame has another usage than the plan`])
  ]
}

/** Whether the network reset its connection. */
export const isReset = ({ resets }: Observed, { ended, plan, replica }: ObservedAttempt): boolean =>
  resets.some(
    (reset) => reset.call === undefined && reset.plan === plan && reset.replica === replica && reset.at === ended?.at
  )

/** Whether somebody has said something that counts at once, so that the rest of the answer, with its usage, was not waited for. */
export const isSteered = (observed: Observed, { began, ended, plan: name }: ObservedAttempt): boolean => {
  const plan = observed.plans.find((one) => one.name === name)
  const urgent = plan?.inbox.filter(({ text }) =>
    observed.said.some((said) => said.text === text && said.when === "now")
  )
  return observed.commits.some(
    ({ at, changes, order, plan_id }) =>
      plan_id === plan?.plan.plan_id &&
      order > began.order &&
      at <= (ended?.at ?? Infinity) + keptWithin &&
      changes.some(
        (change) =>
          change._tag === "EntryChanged" && urgent?.some(({ entry_id }) => entry_id === change.entry_id) === true
      )
  )
}

/** What plans tell is what providers reported: never more, and never less where no process lost what it knew, and no answer was lost. */
const usageIsReported = (observed: Observed): ReadonlyArray<string> => {
  const sum = total(observed.plans.map(told))
  const reported = total(observed.attempts.flatMap(({ usage }) => usage ?? []))
  const isMore = sum.input_tokens > reported.input_tokens || sum.output_tokens > reported.output_tokens
  const isWhole =
    observed.attempts.every(
      (attempt) => attempt.usageMs <= usageWithin && !isReset(observed, attempt) && !isSteered(observed, attempt)
    ) &&
    observed.plans.every(
      (plan) =>
        plan.plan.state === "completed" &&
        ownersOf(observed, plan).every(({ replica }) => !wasHindered(observed, replica, 0, observed.end))
    )
  return isMore || (isWhole && !same(sum, reported))
    ? [`plans tell of ${JSON.stringify(sum)}, providers have reported ${JSON.stringify(reported)}`]
    : []
}

/** How soon a request ends whose plan is handed over, in milliseconds. */
const reachMs = 500

/** Whether the replica has handed the plan over in order, long enough after the provider had said what it uses. */
const isHandedOver = (observed: Observed, { plan }: ObservedPlan, attempt: ObservedAttempt): boolean => {
  const { began, ended, replica, usedAt } = attempt
  if (usedAt === undefined || isReset(observed, attempt)) return false
  const leaving = observed.commits.find(
    ({ changes, plan_id, ...commit }) =>
      plan_id === plan.plan_id && commit.replica === replica && changes.some(({ _tag }) => _tag === "HandedOver")
  )
  return (
    leaving !== undefined &&
    leaving.at >= usedAt.at + keptWithin &&
    (ended === undefined || ended.at >= leaving.at - reachMs) &&
    !wasHindered(observed, replica, began.at, leaving.at) &&
    !observed.lostAnswers.some((lost) => lost.replica === replica)
  )
}

/** What a provider has reported of a whole answer stays with its plan, also where its process shuts down. */
const usageIsKept = (observed: Observed): ReadonlyArray<string> => {
  const isSlow = observed.faults.some(({ fault }) => fault._tag === "NetworkSlow" || fault._tag === "HalfOpen")
  if (isSlow) return []
  return observed.plans.flatMap((plan) => {
    const [end] = endsOf(observed, plan)
    const kept = observed.attempts.filter((attempt) => {
      const { began, ended, plan: of, replica, result } = attempt
      if (of === plan.name && isHandedOver(observed, plan, attempt)) return true
      if (isReset(observed, attempt) || isSteered(observed, attempt)) return false
      if (of !== plan.name || ended === undefined || result !== "finished" || attempt.usageMs > usageWithin)
        return false
      // A process that was frozen may ask once more, before it learns that the plan is another one's.
      if (!isOwners(observed, plan, attempt)) return false
      const until = ended.at + keptWithin
      const isDrained = observed.requests.some(
        ({ began, replica: of, what }) => what === "drain" && of === replica && began.at <= until
      )
      const isCut = end !== undefined && end.outcome.state !== "completed" && end.at < until
      return !isCut && !isDrained && !wasHindered(observed, replica, began.at, until)
    })
    const least = total(kept.flatMap(({ usage }) => usage ?? []))
    const has = told(plan)
    return has.input_tokens >= least.input_tokens && has.output_tokens >= least.output_tokens
      ? []
      : [`${named(plan)} has used ${JSON.stringify(has)}, and its providers have reported ${JSON.stringify(least)}`]
  })
}

/** Credentials are blocked for their own faults only, for as long as these say; usage adds up, and is kept. */
export const spending = (observed: Observed): ReadonlyArray<string> => [
  ...windowsAreEarned(observed),
  ...windowsAreRight(observed),
  ...usageIsKept(observed),
  ...usageIsReported(observed),
  ...observed.plans.flatMap((plan) => usageAddsUp(plan).map((what) => `${named(plan)}: ${what}`))
]
