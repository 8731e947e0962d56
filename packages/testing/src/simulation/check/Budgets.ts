import { resolve } from "@bowline/domain/plan/PlanRequest"
import { resultsOf } from "../replica/Models.ts"
import type { Moment, Observed, ObservedAttempt, ObservedCall, ObservedPlan } from "../scenario/Observed.ts"
import { wasHindered } from "./Fitness.ts"
import { endsOf, named } from "./PlanEnd.ts"
import { isReset, isSteered, usageWithin } from "./Spending.ts"

/** How long a replica may take to store what an attempt has used, in milliseconds. */
const storedWithin = 2_000

/** How much more than the estimate of a prompt its provider may report: an estimate is never less than the truth by more than 15 %. */
const estimateMargin = 1.15

/** The first request of each step, in order. A retry, a continuation and a process that takes over ask with the same results. */
export const stepsOf = ({ attempts }: Observed, { name }: ObservedPlan): ReadonlyArray<ObservedAttempt> => {
  const steps = new Map<number, ObservedAttempt>()
  for (const attempt of attempts) {
    if (attempt.plan !== name) continue
    const results = resultsOf(name, attempt.asked)
    if (!steps.has(results)) steps.set(results, attempt)
  }
  return Array.from(steps.values())
}

/** The calls of a plan. One that is made again behind a crash is the same call. */
const callsOf = ({ calls }: Observed, { name }: ObservedPlan): ReadonlyArray<ObservedCall> => {
  const first = new Map<string, ObservedCall>()
  for (const call of calls) if (call.plan === name && !first.has(call.task_id)) first.set(call.task_id, call)
  return Array.from(first.values())
}

/** Whether the plan's process knows at this moment what the attempt has used. One that takes the plan over knows what is stored. */
const isKnown = (observed: Observed, { plan }: ObservedPlan, attempt: ObservedAttempt, by: Moment): boolean => {
  const { began, ended, replica, usageMs } = attempt
  if (ended === undefined || ended.order > by.order || usageMs > usageWithin) return false
  const isSameProcess = !observed.takeOvers.some(
    ({ order, plan_id }) => plan_id === plan.plan_id && order > began.order && order < by.order
  )
  return (
    !isReset(observed, attempt) &&
    !isSteered(observed, attempt) &&
    (isSameProcess || !wasHindered(observed, replica, began.at, ended.at + storedWithin))
  )
}

const tokensOf = ({ usage }: ObservedAttempt): number =>
  usage === undefined ? 0 : usage.input_tokens + usage.output_tokens

/** What the providers of a plan have reported until then, as far as its process knows it for certain. */
const tokensBy = (observed: Observed, plan: ObservedPlan, by: Moment): number =>
  observed.attempts
    .filter((attempt) => attempt.plan === plan.name && isKnown(observed, plan, attempt, by))
    .reduce((sum, attempt) => sum + tokensOf(attempt), 0)

/** Whether the call came, on a slow network, when its plan had given it up. */
const cameLate = ({ commits }: Observed, { began, task_id }: ObservedCall): boolean =>
  commits.some(
    ({ changes, order }) =>
      order < began.order &&
      changes.some(
        (change) => change._tag === "TaskFinished" && change.task_id === task_id && change.state !== "completed"
      )
  )

/** No more steps, calls and tokens than the request allows. In the last step, and when the tokens are used up, no call is made. */
const planBudget = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> => {
  const { max_steps = Infinity, max_tool_calls = Infinity, max_total_tokens = Infinity } = plan.budget
  const steps = stepsOf(observed, plan)
  const calls = callsOf(observed, plan)
  const last = steps[max_steps - 1]?.began.order ?? Infinity
  const longest = Math.max(0, ...steps.map(({ usage }) => usage?.input_tokens ?? 0))
  return [
    ...(steps.length > max_steps ? [`asks its providers for ${steps.length} steps of ${max_steps}`] : []),
    ...(longest > max_total_tokens * estimateMargin ? [`asks with ${longest} tokens of ${max_total_tokens}`] : []),
    ...(calls.length > max_tool_calls ? [`makes ${calls.length} calls of ${max_tool_calls}`] : []),
    ...calls.flatMap((call) => {
      if (cameLate(observed, call)) return []
      const { began, key } = call
      const step = steps.findLast((one) => one.began.order < began.order)
      const used = step === undefined ? 0 : tokensBy(observed, plan, step.began)
      return [
        ...(began.order > last ? [`makes call ${key} in its last step of ${max_steps}`] : []),
        ...(used >= max_total_tokens
          ? [`makes call ${key}, though it had used ${used} of ${max_total_tokens} tokens`]
          : [])
      ]
    })
  ]
}

/** When the plan looks up what is left of the day for this step: behind all that it has done before. */
const lookedUp = ({ attempts, calls }: Observed, { created, name }: ObservedPlan, { began }: ObservedAttempt): Moment =>
  [...attempts, ...calls].reduce<Moment>(
    (last, { ended, plan }) =>
      plan === name && ended !== undefined && ended.order < began.order && ended.order > last.order ? ended : last,
    created
  )

/** What the other plans have used up for certain: those that had answered by then. */
const othersBy = (observed: Observed, plan: ObservedPlan, by: Moment) =>
  observed.plans.reduce(
    (sum, other) => {
      const [end] = endsOf(observed, other)
      return other === plan || end?.outcome.state !== "completed" || end.order > by.order
        ? sum
        : {
            tokens: sum.tokens + tokensBy(observed, other, end),
            calls: sum.calls + callsOf(observed, other).filter(({ began }) => began.order < end.order).length
          }
    },
    { tokens: 0, calls: 0 }
  )

/** Nobody asks or calls anything for whom nothing is left of the day. */
const dayBudget = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> => {
  const { day } = observed
  if (day === undefined) return []
  const calls = callsOf(observed, plan)
  const steps = stepsOf(observed, plan).filter(({ began }) => began.order < (day.lifted?.order ?? Infinity))
  return steps.flatMap((step, index) => {
    const others = othersBy(observed, plan, lookedUp(observed, plan, step))
    const tokens = others.tokens + tokensBy(observed, plan, step.began)
    const next = steps[index + 1]?.began.order ?? Infinity
    const made = calls.filter(({ began }) => began.order > step.began.order && began.order < next)
    const before = others.calls + calls.filter(({ began }) => began.order < step.began.order).length
    const isOver = made.length > 0 && before + made.length > day.tool_calls
    return [
      ...(tokens >= day.tokens && (index === 0 || made.length > 0)
        ? [`goes on, though ${tokens} of the day's ${day.tokens} tokens were used`]
        : []),
      ...(isOver ? [`makes ${made.length} calls behind ${before} of the day's ${day.tool_calls}`] : [])
    ]
  })
}

/** The tokens that the plan, and the day, may have left by then, at least. A summary is of any plan. */
export const tokensLeft = ({ attempts, day }: Observed, plan: ObservedPlan, by: Moment) => {
  const used = (isCounted: (attempt: ObservedAttempt) => boolean) =>
    attempts.reduce(
      (sum, attempt) => sum + (attempt.began.order < by.order && isCounted(attempt) ? tokensOf(attempt) : 0),
      0
    )
  const { max_total_tokens = Infinity } = plan.budget
  return {
    plan: max_total_tokens - used((attempt) => attempt.plan === plan.name || attempt.plan === ""),
    day: (day?.tokens ?? Infinity) - used(() => true)
  }
}

/** Whether the plan, or the day, may have used up its tokens by then. */
export const isSpent = (observed: Observed, plan: ObservedPlan, by: Moment): boolean => {
  const left = tokensLeft(observed, plan, by)
  return left.plan <= 0 || left.day <= 0
}

/** Whether the plan, or the day, may have used up its calls by then: those in the answers of providers. */
export const areCallsSpent = ({ attempts, day, plans }: Observed, plan: ObservedPlan, by: Moment): boolean => {
  // Those that no model has asked for.
  const alone = plans.filter(({ created, request }) => request.call !== undefined && created.order < by.order).length
  const made = (isCounted: (attempt: ObservedAttempt) => boolean) =>
    attempts.reduce(
      (sum, attempt) => sum + (attempt.began.order < by.order && isCounted(attempt) ? attempt.calls : 0),
      0
    )
  const { max_tool_calls } = { ...resolve(plan.request).preferences, ...plan.budget }
  return (
    made(({ plan: of }) => of === plan.name) >= max_tool_calls ||
    made(() => true) + alone >= (day?.tool_calls ?? Infinity)
  )
}

/** Budgets are not exceeded, neither those of plans nor that of the day: by what providers have reported, and by the calls that tools got. */
export const budgets = (observed: Observed): ReadonlyArray<string> =>
  observed.plans.flatMap((plan) =>
    [...planBudget(observed, plan), ...dayBudget(observed, plan)].map((what) => `${named(plan)} ${what}`)
  )
