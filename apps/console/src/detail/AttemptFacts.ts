import type { AttemptView, PlanView, StepView } from "@bowline/client"
import { counted } from "../text/Format.ts"

/** Which attempt of which step. */
export interface AttemptPlace {
  readonly step: StepView
  readonly attempt: AttemptView
}

export const findAttempt = (view: PlanView, row: string): AttemptPlace | undefined => {
  const [number, name] = row.split("-").map(Number)
  const step = view.steps.find((entry) => entry.step === number)
  const attempt = step?.attempts.find((entry) => entry.attempt === name)
  return step === undefined || attempt === undefined ? undefined : { step, attempt }
}

const isLast = (view: PlanView, { attempt, step }: AttemptPlace): boolean =>
  view.steps.at(-1) === step && step.attempts.at(-1) === attempt

/** The key that was asked with. Frames name it of retries, and the plan's error that of its last attempt; else nobody here knows it. */
export const credentialOf = (view: PlanView, place: AttemptPlace): string | null => {
  const { outcome } = view
  const blamed =
    outcome !== null && outcome.state !== "completed" && isLast(view, place) ? outcome.error.data?.["credential"] : null
  return place.attempt.retry?.credential ?? (typeof blamed === "string" ? blamed : null)
}

/** How the answer of an attempt ended, as what followed shows. Null where nothing shows it. */
export const endOf = (view: PlanView, place: AttemptPlace): string | null => {
  const { attempt, step } = place
  const { endedAt, error, isRetracted } = attempt
  if (error !== null) return error.reason === undefined ? error.code : `${error.code}: ${error.reason}`
  if (endedAt === null) return null
  const next = step.attempts[step.attempts.indexOf(attempt) + 1]
  if (next?.retry === null && !isRetracted) return `max_tokens, continued by attempt ${next.attempt}`
  if (isRetracted) return "retracted"
  const calls = view.tasks.filter((task) => task.step === step.step).length
  if (next === undefined && calls > 0) return `tool calls (${counted(calls, "call")})`
  return isLast(view, place) && view.outcome?.state === "completed" ? view.outcome.final.stop_reason : null
}

/** Tokens of the answer in a second, from its first piece to its end. */
export const speedOf = ({ endedAt, firstTokenAt, usage }: AttemptView): number | null =>
  usage === null || endedAt === null || firstTokenAt === null || endedAt - firstTokenAt < 100
    ? null
    : Math.round((usage.output_tokens * 1_000) / (endedAt - firstTokenAt))
