import type { AttemptView, PlanView, RetryView, StepView } from "./PlanView.ts"

/** The list with its last entry replaced that matches: the newest entries change most. */
export const replaceLast = <A>(
  list: ReadonlyArray<A>,
  matches: (entry: A) => boolean,
  replace: (entry: A) => A
): ReadonlyArray<A> => {
  const index = list.findLastIndex(matches)
  const entry = list[index]
  return entry === undefined ? list : list.with(index, replace(entry))
}

export const withLast = <A>(list: ReadonlyArray<A>, last: A): ReadonlyArray<A> => [...list.slice(0, -1), last]

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
  const isStep = (entry: StepView): boolean => entry.step === step
  // Whoever reads on in the middle of a plan has not seen the step begin.
  const known = view.steps.some(isStep)
    ? view.steps
    : [...view.steps, { step, startedAt: at, endedAt: null, attempts: [] }]
  const withOne = (entry: StepView): StepView => {
    const attempts = replaceLast(entry.attempts, (other) => other.attempt === attempt, replace)
    if (attempts !== entry.attempts) return { ...entry, attempts }
    const before = closeAttempt(entry.attempts, at)
    return { ...entry, attempts: [...before, replace(newAttempt(attempt, before.at(-1)?.endedAt ?? at, view.model))] }
  }
  return { ...view, steps: replaceLast(known, isStep, withOne) }
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

const closeAttempt = (
  attempts: ReadonlyArray<AttemptView>,
  at: number,
  error?: AttemptError
): ReadonlyArray<AttemptView> => {
  const last = attempts.at(-1)
  return last === undefined || (last.endedAt !== null && error === undefined)
    ? attempts
    : withLast(attempts, { ...close(last, at), error: error ?? last.error })
}

/** The attempt of the last step is over, at the latest: its calls are made, it has failed, or the plan goes on without it. */
export const closeLastAttempt = (view: PlanView, at: number, error?: AttemptError): PlanView => {
  const last = view.steps.at(-1)
  if (last === undefined) return view
  const attempts = closeAttempt(last.attempts, at, error)
  return attempts === last.attempts ? view : { ...view, steps: withLast(view.steps, { ...last, attempts }) }
}

/** Closes the step that ran. It ended with the last of its attempts, calls and approvals: what comes behind them is not its time. */
export const closeLastStep = (view: PlanView, at: number): PlanView => {
  const closed = closeLastAttempt(view, at)
  const last = closed.steps.at(-1)
  if (last === undefined || last.endedAt !== null) return closed
  const own = [...view.tasks, ...view.approvals].filter(({ step }) => step === last.step)
  const endedAt = Math.max(last.startedAt, ...[...last.attempts, ...own].map(({ endedAt }) => endedAt ?? at))
  return { ...closed, steps: withLast(closed.steps, { ...last, endedAt }) }
}

export const textOf = ({ attempts }: Pick<StepView, "attempts">): string =>
  attempts.map(({ isRetracted, text }) => (isRetracted ? "" : text)).join("")
