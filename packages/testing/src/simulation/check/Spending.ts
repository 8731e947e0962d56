import { add, empty, type Usage } from "@bowline/domain/plan/Usage"
import type { Observed, ObservedAttempt, ObservedPlan, ObservedWindow } from "../scenario/Observed.ts"
import { endsOf, ownersOf, eventsOf, named, seconds } from "./PlanEnd.ts"
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

const [second, minute, hour] = [1_000, 60_000, 3_600_000]

/** How long windows last, the first one of a credential and those behind it, by the table of the reference; in milliseconds. */
const lengths: Readonly<Record<string, ReadonlyArray<number>>> = {
  rate_limited: [30 * second, minute, 5 * minute],
  first_token_timeout: [30 * second, minute, 5 * minute],
  idle_timeout: [30 * second, minute, 5 * minute],
  auth: [10 * minute, 20 * minute, 40 * minute, 60 * minute],
  billing: [5 * hour, 10 * hour, 20 * hour, 24 * hour],
  model_unavailable: [5 * minute]
}

/** How many seconds providers have asked to wait, in any of their refusals. */
const askedFor = ({ faults }: Observed): ReadonlyArray<number> =>
  faults.flatMap(({ fault }) => {
    if (fault._tag === "Storm") return fault.retryAfterS ?? []
    return fault._tag === "Provider" && fault.does._tag === "Refuse" ? (fault.does.retryAfterS ?? []) : []
  })

/** A window is as long as its reason says, and longer ones come only behind others. */
const windowsAreRight = (observed: Observed): ReadonlyArray<string> => {
  const asked = askedFor(observed).map((seconds) => seconds * second)
  return observed.windows.flatMap(({ at, credential, model, order, reason, until }) => {
    const before = observed.windows.filter(
      (one) => one.credential === credential && one.model === model && one.order < order
    )
    const may = (lengths[reason] ?? []).slice(0, before.length + 1)
    const isRight = [...may, ...(reason === "rate_limited" ? asked : [])].some(
      (length) => Math.abs(until - at - length) <= second
    )
    return isRight ? [] : [`credential ${credential} is put aside for ${seconds(until - at)} for ${reason}`]
  })
}

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

/** How long an answer takes on a network that is not slow, and how long its usage takes until it is stored, in milliseconds. */
const keptWithin = 1_500

/** What a provider has reported of a whole answer stays with its plan, also where its process shuts down. */
const usageIsKept = (observed: Observed): ReadonlyArray<string> => {
  const isSlow = observed.faults.some(({ fault }) => fault._tag === "NetworkSlow" || fault._tag === "HalfOpen")
  if (isSlow) return []
  return observed.plans.flatMap((plan) => {
    const [end] = endsOf(observed, plan)
    const kept = observed.attempts.filter(({ began, ended, plan: of, replica, result, ...attempt }) => {
      if (of !== plan.name || ended === undefined || result !== "finished" || attempt.usageMs > usageWithin)
        return false
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

/** Credentials are put aside for their own faults only, for as long as these say; usage adds up, and is kept. */
export const spending = (observed: Observed): ReadonlyArray<string> => [
  ...windowsAreEarned(observed),
  ...windowsAreRight(observed),
  ...usageIsKept(observed),
  ...usageIsReported(observed),
  ...observed.plans.flatMap((plan) => usageAddsUp(plan).map((what) => `${named(plan)}: ${what}`))
]
