import type { AttemptView, PlanView, RetryView, StepView } from "./PlanView.ts"

/** What is changed is new, and what stays as it is is the same object. */
export const append = <K extends string, A extends { readonly [key in K]: ReadonlyArray<unknown> }>(
  whole: A,
  key: K,
  entry: A[K][number]
): A => ({ ...whole, [key]: [...whole[key], entry] })

/** The whole with the last entry of a list replaced that matches: the newest entries change most. */
export const replaceLast = <K extends string, A extends { readonly [key in K]: ReadonlyArray<unknown> }>(
  whole: A,
  key: K,
  replace: (entry: A[K][number]) => A[K][number],
  matches: (entry: A[K][number]) => boolean = () => true
): A => {
  const list = whole[key]
  const index = list.findLastIndex(matches)
  const entry = list[index]
  if (entry === undefined) return whole
  const next = replace(entry)
  return next === entry ? whole : { ...whole, [key]: list.with(index, next) }
}

/** Ends what is open. */
export const close = <A extends { readonly endedAt: number | null }>(entry: A, at: number): A =>
  entry.endedAt === null ? { ...entry, endedAt: at } : entry

/** The view with the attempt. No frame announces the continuation of an answer: it begins with its first delta. */
export const withAttempt = (
  view: PlanView,
  { attempt, step }: { readonly step: number; readonly attempt: number },
  at: number,
  replace: (entry: AttemptView) => AttemptView
): PlanView => {
  // Whoever reads on in the middle of a plan has not seen the step begin.
  const known = view.steps.some((entry) => entry.step === step)
    ? view
    : append(view, "steps", { step, startedAt: at, endedAt: null, attempts: [] })
  const withOne = (entry: StepView): StepView => {
    const isOne = (other: AttemptView): boolean => other.attempt === attempt
    if (entry.attempts.some(isOne)) return replaceLast(entry, "attempts", replace, isOne)
    const closed = closeAttempt(entry, at)
    return append(closed, "attempts", replace(newAttempt(attempt, closed.attempts.at(-1)?.endedAt ?? at, view.model)))
  }
  return replaceLast(known, "steps", withOne, (entry) => entry.step === step)
}

export const newAttempt = (
  attempt: number,
  startedAt: number,
  model: string | null,
  retry: RetryView | null = null
): AttemptView => ({
  attempt,
  startedAt,
  endedAt: null,
  firstTokenAt: null,
  model,
  retry,
  text: "",
  reasoning: "",
  isRetracted: false,
  error: null,
  usage: null,
  costUsd: null
})

type AttemptError = NonNullable<AttemptView["error"]>

const closeAttempt = (step: StepView, at: number, error?: AttemptError): StepView =>
  replaceLast(step, "attempts", (last) => {
    const closed = close(last, at)
    return error === undefined ? closed : { ...closed, error }
  })

/** The attempt of the last step is over, at the latest: its calls are made, it has failed, or the plan goes on without it. */
export const closeLastAttempt = (view: PlanView, at: number, error?: AttemptError): PlanView =>
  replaceLast(view, "steps", (last) => closeAttempt(last, at, error))

/** Closes the step that ran. It ended with the last of its attempts, calls and approvals: what comes behind them is not its time. */
export const closeLastStep = (view: PlanView, at: number): PlanView =>
  replaceLast(closeLastAttempt(view, at), "steps", (last) => {
    const own = [...last.attempts, ...[...view.tasks, ...view.approvals].filter(({ step }) => step === last.step)]
    return close(last, Math.max(last.startedAt, ...own.map(({ endedAt }) => endedAt ?? at)))
  })

export const textOf = ({ attempts }: Pick<StepView, "attempts">): string =>
  attempts.map(({ isRetracted, text }) => (isRetracted ? "" : text)).join("")
