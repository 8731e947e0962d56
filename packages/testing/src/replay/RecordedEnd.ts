import type { Comparison } from "./Comparison.ts"
import type { Segment } from "./RecordedTakeovers.ts"
import { fieldsOf, type PlanRecording, type RecordedAttempt, type RecordedFrame } from "./RecordFile.ts"

/** What the end of a plan that is aborted tells, in front of the abort: what was open is ended, and what was said meanwhile is heard. */
const ending = new Set("usage error done inbox.accepted inbox.moved".split(" "))

export const isEnding = ({ data, event }: RecordedFrame): boolean =>
  ending.has(event) ||
  (event === "task.finished" && fieldsOf(data)["state"] === "interrupted") ||
  // Only then it is woken.
  (event === "woken" && fieldsOf(data)["because"] === "abort")

/** Whether the record has neither the finish of an attempt nor its failure. */
export const hasNoEnd = ({ failure, parts }: RecordedAttempt): boolean =>
  failure === undefined && parts.every((part) => typeof part === "number" || part._tag !== "Finished")

/** Whether the plan failed since its store was away. */
export const failedByStore = ({ plan }: PlanRecording): boolean => plan.error?.code === "storage"

/**
 * The place of the frame whose write failed until the plan did; infinite if its store was not away. It is the last one in front of the end, unless the
 * plan failed in the middle of an answer of which too much waited to be stored.
 */
export const unstoredFrom = (recording: PlanRecording, { expected }: Pick<Comparison, "expected">): number => {
  if (!failedByStore(recording)) return Infinity
  const last = expected.findLastIndex((frame) => !isEnding(frame))
  const { at, event = "" } = expected[last] ?? {}
  const attempt = recording.attempts.at(-1)
  if (attempt === undefined || !hasNoEnd(attempt) || !event.endsWith(".delta")) return last
  const before = expected.findLastIndex((frame, index) => index < last && (frame.at !== at || frame.event !== event))
  return before < last - 1 ? before : last
}

/** What the record does not tell, and a plan can depend on: it is the same if it is so in one of the ways. */
export interface How {
  /** A deadline has passed while nothing else happened: nobody has to abort the plan. */
  readonly isByTime: boolean
  /** Who aborted it came when it had nothing left to do. */
  readonly abortsLate: boolean
  /** No time was left for another attempt. */
  readonly failsLate: boolean
  /** These files of its history, of which there are no bytes, were deleted before it. */
  readonly away: ReadonlySet<string>
}

/** In front of which frame somebody has aborted the plan in this process, if so: only the last one ends it. A deadline that passes while nothing else happens needs nobody. */
export const abortIn = (
  { plan }: PlanRecording,
  { behindGivens, expected }: Comparison,
  { isByTime }: Pick<How, "isByTime">,
  { from, to }: Segment
): number | undefined => {
  const reason = plan.error?.reason
  if (reason === undefined || (reason === "deadline" && isByTime) || to < Infinity) return undefined
  const place = Math.max(expected.findLastIndex((frame) => !isEnding(frame)) + 1, from, behindGivens)
  const open = expected.findIndex(({ event }, index) => index >= place && event === "task.finished")
  const said = expected.findIndex(({ event }, index) => index >= place && event !== "inbox.accepted")
  // A text that was heard while calls were open came before.
  return open >= 0 ? said : place
}
