import type { Observed, ObservedAttempt, ObservedWindow } from "../scenario/Observed.ts"
import { wasHindered } from "./Fitness.ts"
import { seconds } from "./PlanEnd.ts"

/** The faults for which a credential, or a model on it, is blocked. */
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

/** How long a success takes until every replica knows of it that is well, in milliseconds. */
const knownWithin = 1_000

/** For how long a success shows that a key is good, in milliseconds; and how much later or sooner a replica may think so. */
const trust = 600_000
const doubt = 10_000

/**
 * What a replica may make of an attempt. A refusal without a reason is about its key, or about the prompt where the key has succeeded
 * shortly before, as far as the replica knows.
 */
export const reasonsOf = (observed: Observed, attempt: ObservedAttempt): ReadonlyArray<string> => {
  const { began, credential, isUnexplained, replica, result } = attempt
  if (!isUnexplained || result !== "auth") return [result]
  const good = observed.attempts.filter(
    (other) =>
      other.credential === credential &&
      other.result === "finished" &&
      other.ended !== undefined &&
      other.ended.at <= began.at &&
      other.ended.at >= began.at - trust - doubt
  )
  if (good.length === 0) return ["auth"]
  const isCertain = good.some(({ ended, ...other }) => {
    if (ended === undefined || ended.at > began.at - knownWithin || ended.at < began.at - trust + doubt) return false
    return [replica, other.replica].every(
      (name) =>
        !wasHindered(observed, name, other.began.at, began.at + doubt) &&
        !observed.lostAnswers.some((lost) => lost.replica === name && lost.at <= began.at)
    )
  })
  return isCertain ? ["bad_request"] : ["auth", "bad_request"]
}

/** Whether the attempt is the fault for which the window was opened: of this credential, for this reason, just before. */
const explains = (observed: Observed, attempt: ObservedAttempt, window: ObservedWindow): boolean => {
  const { credential, ended, model, quiet, result } = attempt
  return (
    (credential === window.credential || window.reason === "model_unavailable") &&
    (window.model === null || model === window.model) &&
    (reasonsOf(observed, attempt).includes(window.reason) ||
      (window.reason.endsWith("timeout") && result === "cut" && quiet >= observed.silence - onTheWay)) &&
    ended !== undefined &&
    ended.order < window.order &&
    window.at - ended.at <= storedWithin
  )
}

/** A credential is blocked for its own faults only. */
export const windowsAreEarned = (observed: Observed): ReadonlyArray<string> =>
  observed.windows
    .filter(
      (window) =>
        !blamed.has(window.reason) || !observed.attempts.some((attempt) => explains(observed, attempt, window))
    )
    .map(
      ({ at, credential, model, reason }) =>
        `credential ${credential} is blocked at ${seconds(at)} for ${reason} of ${model ?? "any model"}, which it has not done`
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

/** Whether an attempt behind this window has succeeded, and its replica has stored that before the other one: then it does not count any more. */
const isForgiven = (observed: Observed, window: ObservedWindow, later: ObservedWindow): boolean =>
  observed.attempts.some(
    ({ began, credential, ended, model, replica, result }) =>
      credential === window.credential &&
      (window.model === null || model === window.model) &&
      result === "finished" &&
      ended !== undefined &&
      began.at >= window.at + knownWithin / 2 &&
      ended.at + knownWithin <= later.at &&
      !wasHindered(observed, replica, window.at, ended.at + knownWithin) &&
      !observed.lostAnswers.some((lost) => lost.replica === replica && lost.at <= ended.at + knownWithin)
  )

/** A window is as long as its reason says, and longer ones come only behind others without a success between them. */
export const windowsAreRight = (observed: Observed): ReadonlyArray<string> => {
  const asked = askedFor(observed).map((seconds) => seconds * second)
  return observed.windows.flatMap((window) => {
    const { at, credential, model, order, reason, until } = window
    const before = observed.windows.filter(
      (one) =>
        one.credential === credential && one.model === model && one.order < order && !isForgiven(observed, one, window)
    )
    const may = (lengths[reason] ?? []).slice(0, before.length + 1)
    const isRight = [...may, ...(reason === "rate_limited" ? asked : [])].some(
      (length) => Math.abs(until - at - length) <= second
    )
    return isRight ? [] : [`credential ${credential} is blocked for ${seconds(until - at)} for ${reason}`]
  })
}
