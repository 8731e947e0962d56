import { add, empty, type Usage } from "@bowline/domain/plan/Usage"
import type { Observed, ObservedAttempt, ObservedPlan, ObservedWindow } from "../scenario/Observed.ts"
import { ownersOf, eventsOf, named, seconds } from "./PlanEnd.ts"
import { wasHindered } from "./Fitness.ts"

/** The faults for which a credential, or a model on it, is put aside. */
const blamed: ReadonlySet<string> = new Set([
  "rate_limited",
  "auth",
  "billing",
  "model_unavailable",
  "first_token_timeout",
  "idle_timeout"
])

/** How long behind its fault a window may be stored, in milliseconds: longer than the store ever takes. */
const storedWithin = 60_000

/** How long a request and its answer may be on the way, in milliseconds: a provider is not silent until it is asked. */
export const onTheWay = 10_000

/** Whether the attempt is the fault for which the window was opened: of this credential, for this reason, just before. */
const explains = (
  { credential, ended, model, quiet, result }: ObservedAttempt,
  window: ObservedWindow,
  silence: number
): boolean =>
  (credential === window.credential || window.reason === "model_unavailable") &&
  (window.model === null || model === window.model) &&
  (result === window.reason ||
    (window.reason.endsWith("timeout") && result === "cut" && quiet >= silence - onTheWay)) &&
  ended !== undefined &&
  ended.order < window.order &&
  window.at - ended.at <= storedWithin

const windowsAreEarned = ({ attempts, silence, windows }: Observed): ReadonlyArray<string> =>
  windows
    .filter((window) => !blamed.has(window.reason) || !attempts.some((attempt) => explains(attempt, window, silence)))
    .map(
      ({ at, credential, model, reason }) =>
        `credential ${credential} is put aside at ${seconds(at)} for ${reason} of ${model ?? "any model"}, which it has not done`
    )

/** A gateway waits 1 s for the usage behind a finish. */
export const usageWithin = 900

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

/** What plans tell is what providers reported: never more, and never less where no process lost what it knew, and no answer was lost. */
const usageIsReported = (observed: Observed): ReadonlyArray<string> => {
  const sum = total(observed.plans.map(told))
  const reported = total(observed.attempts.flatMap(({ usage }) => usage ?? []))
  const isMore = sum.input_tokens > reported.input_tokens || sum.output_tokens > reported.output_tokens
  const isWhole =
    observed.attempts.every((attempt) => attempt.usageMs <= usageWithin && !isReset(observed, attempt)) &&
    observed.plans.every(
      (plan) =>
        plan.plan.state === "completed" &&
        ownersOf(observed, plan).every(({ replica }) => !wasHindered(observed, replica, 0, observed.end))
    )
  return isMore || (isWhole && !same(sum, reported))
    ? [`plans tell of ${JSON.stringify(sum)}, providers have reported ${JSON.stringify(reported)}`]
    : []
}

/** Credentials are put aside for their own faults only; usage adds up. */
export const spending = (observed: Observed): ReadonlyArray<string> => [
  ...windowsAreEarned(observed),
  ...usageIsReported(observed),
  ...observed.plans.flatMap((plan) => usageAddsUp(plan).map((what) => `${named(plan)}: ${what}`))
]
