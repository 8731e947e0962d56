import { add, empty, type Usage } from "@bowline/domain/plan/Usage"
import type { Observed, ObservedAttempt, ObservedPlan, ObservedWindow } from "../Observed.ts"
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
const usageWithin = 900

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
const isReset = ({ resets }: Observed, { ended, plan, replica }: ObservedAttempt): boolean =>
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

/** No more steps, calls and tokens than the request allows. At the limit of tokens no step begins that calls a tool. */
const budgetsHold = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> => {
  const { max_steps = Infinity, max_tool_calls = Infinity, max_total_tokens = Infinity } = plan.request.preferences
  const events = eventsOf(plan)
  const steps = new Set(events.flatMap(({ data, event }) => (event === "step" ? [data.step] : []))).size
  const made = new Set(observed.calls.flatMap(({ plan: of, task_id }) => (of === plan.name ? [task_id] : [])))
  const ran = new Set<string>()
  let used = empty
  let isSpent = false
  for (const { data, event } of events) {
    if (event === "usage") used = add(used, data)
    if (event === "step") isSpent = used.input_tokens + used.output_tokens >= max_total_tokens
    if (event === "task.started" && isSpent && made.has(data.task_id)) ran.add(data.task_id)
  }
  return [
    ...(steps > max_steps ? [`has ${steps} steps of ${max_steps}`] : []),
    ...(made.size > max_tool_calls ? [`makes ${made.size} calls of ${max_tool_calls}`] : []),
    ...Array.from(ran, (task) => `makes call ${task} though it has used ${max_total_tokens} tokens`)
  ]
}

/** Credentials are put aside for their own faults only; usage adds up; budgets are not exceeded. */
export const spending = (observed: Observed): ReadonlyArray<string> => [
  ...windowsAreEarned(observed),
  ...usageIsReported(observed),
  ...observed.plans.flatMap((plan) =>
    [...usageAddsUp(plan), ...budgetsHold(observed, plan)].map((what) => `${named(plan)}: ${what}`)
  )
]
