import { type AbortReason, isRetryable, type Failure, type Outcome, type Stage } from "@bowline/domain/plan/Outcome"
import { Exit, Option } from "effect"
import type { ProviderError } from "@bowline/domain/provider/ProviderError"
import type { MessagePart } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { retryAfterMs } from "../asking/RetryPolicy.ts"
import type { PlanAnswer } from "../planner/StepLoop.ts"
import type { PlannerError } from "../planner/PlannerError.ts"
import type { Ending, PlanRun, Snapshot } from "../planner/PlanRun.ts"
import type { TaskEnd } from "../planner/PlanTasks.ts"
import type { LeaseLost } from "../store/LeaseStore.ts"

const phrases: Record<AbortReason, string> = {
  disconnect: "The caller disconnected",
  deadline: "The deadline has passed",
  cancelled: "The plan was cancelled",
  superseded: "A newer plan has taken the session",
  shutdown: "The gateway is shutting down"
}

/** Why the work of a plan can fail. */
export type Failed = ProviderError | PlannerError | StorageError | LeaseLost

export interface Exited {
  readonly _tag: "Exited"
  readonly exit: Exit.Exit<PlanAnswer, Failed>
}

/** What ended a plan: an abort, a hand-over, or the exit of its work. A journal that may no longer write makes the work exit, too. */
export type End = Ending | Exited

/** The error of an abort names the stage that was running, and in stage `tool` every open task. */
const ofAbort = (reason: AbortReason, { open, stage }: Snapshot, now: number): Failure => {
  const tools = open.map(([task_id, { tool, startedAt }]) => ({ tool, task_id, elapsed_ms: now - startedAt }))
  const last = tools.at(-1)
  const data = stage === "tool" && last !== undefined ? { data: { ...last, tools } } : {}
  const message = `${phrases[reason]}${stage === null ? "" : `, in stage ${stage}`}`
  return { code: "aborted", message, retryable: isRetryable(reason), stage, reason, ...data }
}

/** The last attempt of a step has failed. */
const ofProvider = (
  error: ProviderError,
  stage: Stage | null,
  { failedWith, failures, shownText }: Snapshot
): Failure => {
  const reasons = failures.map(({ _tag }) => _tag)
  const retryAfter = retryAfterMs(error.reason)
  return {
    code: error.code,
    message: error.message,
    retryable: error.isRetryable,
    stage: stage ?? "provider",
    data: {
      attempts: reasons.length,
      reasons,
      ...(failedWith === undefined ? {} : { credential: failedWith }),
      ...(retryAfter === undefined ? {} : { retry_after_ms: retryAfter }),
      ...(shownText !== "" ? { partial: true } : {})
    }
  }
}

/** The plan has run into one of its own rules. */
const ofPlanner = ({ code, data, isRetryable = false, message }: PlannerError, stage: Stage | null): Failure => ({
  code,
  message,
  retryable: isRetryable,
  stage,
  data
})

const ofStorage = (error: StorageError, stage: Stage | null): Failure => ({
  code: "storage",
  message: error.message,
  retryable: true,
  stage
})

/** A bug. The log has the cause; the caller does not see it. */
const ofDefect = (stage: Stage | null): Failure => ({
  code: "internal",
  message: "Something went wrong in the gateway",
  retryable: false,
  stage
})

/** The outcome of the plan; undefined if another process has the plan now, or is to have it. */
export const outcomeOf = (end: End, snapshot: Snapshot, now: number): Outcome | undefined => {
  if (end._tag === "HandedOver") return undefined
  if (end._tag === "Aborted") return { state: "aborted", error: ofAbort(end.reason, snapshot, now) }
  if (end._tag === "Exited" && Exit.isSuccess(end.exit)) return { state: "completed", final: end.exit.value.final }
  const stage = snapshot.failedIn ?? snapshot.stage
  const error = end._tag === "Stopped" ? end.why : Option.getOrUndefined(Exit.findErrorOption(end.exit))
  switch (error?._tag) {
    case "LeaseLost":
      return undefined
    case "ProviderError":
      return { state: "failed", error: ofProvider(error, stage, snapshot) }
    case "PlannerError":
      return { state: "failed", error: ofPlanner(error, stage) }
    case "StorageError":
      return { state: "failed", error: ofStorage(error, stage) }
    case undefined:
      return { state: "failed", error: ofDefect(stage) }
  }
}

const interrupted: TaskEnd = {
  state: "interrupted",
  result: "",
  error: { code: "interrupted", message: "The plan ended while the call was open" }
}

/** What the history keeps of the last step: the answer, or what was shown of one. */
const lastParts = (end: End, { shownText }: Snapshot): ReadonlyArray<MessagePart> | undefined => {
  if (end._tag === "Exited" && Exit.isSuccess(end.exit)) return end.exit.value.parts
  return shownText === "" ? undefined : [{ type: "text", text: shownText, partial: true }]
}

/**
 * Ends a plan, once. What is open gets its result, partial text is kept for show, then come the outcome and `done`. With
 * `isReleased` the session is free in the same commit. Nothing more of the plan is written after it.
 */
export const settle = (run: PlanRun, end: End, outcome: Outcome, now: number, isReleased: boolean): void => {
  const { journal } = run.given
  run.countUsage()
  const last = lastParts(end, run.snapshot())
  const finished = run.tasks.finishAll(interrupted, now)
  journal.append(
    // In one commit: after a crash between them, the next process would find an answer without the reason why it stopped, or give calls
    // a second result.
    [
      ...finished.changes,
      ...(last === undefined ? [] : [run.message("assistant", last, now)]),
      { _tag: "Settled", outcome, progress: run.progress, at: fromMillis(now) },
      ...(isReleased ? [{ _tag: "Released" } as const] : [])
    ],
    [
      ...finished.events,
      outcome.state === "completed" ? { event: "final", data: outcome.final } : { event: "error", data: outcome.error },
      { event: "done", data: {} }
    ]
  )
  journal.seal()
}

/** Leaves the plan to the next process. Unless the plan is lost already, also stores that this process shut down in order. */
export const handOver = (run: PlanRun, why: "handed over" | "lost"): void => {
  const { journal } = run.given
  run.leave(why)
  run.countUsage()
  if (why === "handed over") journal.append([{ _tag: "HandedOver" }], [])
  journal.seal()
}
