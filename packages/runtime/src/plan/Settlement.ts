import { type AbortReason, isRetryable, type Failure, type Outcome, type Stage } from "@bowline/domain/plan/Outcome"
import type { ProviderError } from "@bowline/domain/provider/ProviderError"
import type { MessagePart } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/time/Timestamp"
import { unknownEffect } from "../history/LegalHistory.ts"
import { retryAfterMs } from "../asking/RetryPolicy.ts"
import type { PlanRun, TaskEnd } from "../planner/PlanRun.ts"

const phrases: Record<AbortReason, string> = {
  disconnect: "The caller has left",
  deadline: "The deadline has passed",
  cancelled: "The plan was cancelled",
  superseded: "A newer plan has taken the session",
  shutdown: "The gateway is shutting down"
}

/** Whom an abort is blamed on: the stage that was running, and in stage `tool` every task that was open. */
export const ofAbort = (reason: AbortReason, stage: Stage | null, run: PlanRun, now: number): Failure => {
  const tools = Array.from(run.tasks, ([task_id, { tool, startedAt }]) => ({
    tool,
    task_id,
    elapsed_ms: now - startedAt
  }))
  const last = tools.at(-1)
  const data = stage === "tool" && last !== undefined ? { data: { ...last, tools } } : {}
  const message = `${phrases[reason]}${stage === null ? "" : `, in stage ${stage}`}`
  return { code: "aborted", message, retryable: isRetryable(reason), stage, reason, ...data }
}

/** The last attempt of a step has failed. */
export const ofProvider = (error: ProviderError, stage: Stage | null, run: PlanRun): Failure => {
  const { failures = [], shownText = "" } = run.step ?? {}
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
      ...(retryAfter === undefined ? {} : { retry_after_ms: retryAfter }),
      ...(shownText === "" ? {} : { partial: true })
    }
  }
}

export const ofStorage = (error: StorageError, stage: Stage | null): Failure => ({
  code: "storage",
  message: error.message,
  retryable: true,
  stage
})

/** A bug: the log has the cause, the caller has not. */
export const ofDefect = (stage: Stage | null): Failure => ({
  code: "internal",
  message: "Something went wrong in the gateway",
  retryable: false,
  stage
})

const interrupted: TaskEnd = {
  state: "interrupted",
  result: "",
  error: { code: "interrupted", message: "The plan ended while the call was open" }
}

/**
 * Ends a plan, once: what is open gets its result, partial text is kept for show, then come the outcome and `done`. After it
 * nothing more of the plan is written.
 */
export const settle = (run: PlanRun, outcome: Outcome, now: number): void => {
  const { journal } = run.given
  for (const task_id of Array.from(run.unanswered.keys())) {
    run.finishTask(task_id, interrupted, unknownEffect, now)
  }
  run.countUsage()
  const { shownText = "" } = run.step ?? {}
  const partial: ReadonlyArray<MessagePart> = [{ type: "text", text: shownText, partial: true }]
  const last = outcome.state === "completed" ? run.answer : shownText === "" ? undefined : partial
  journal.append(
    // Together: whoever finds the answer of a plan that is not over could not tell why it had stopped.
    [
      ...(last === undefined ? [] : [run.message("assistant", last, now)]),
      { _tag: "Settled", outcome, progress: run.progress, at: fromMillis(now) }
    ],
    [
      outcome.state === "completed" ? { event: "final", data: outcome.final } : { event: "error", data: outcome.error },
      { event: "done", data: {} }
    ]
  )
  journal.seal()
}

/** Leaves the plan to the next process. If it is not lost yet, that process is told that this one has ended well. */
export const handOver = (run: PlanRun, why: "handed over" | "lost"): void => {
  const { journal } = run.given
  run.elsewhere = why
  run.countUsage()
  if (why === "handed over" && journal.guard._tag === "Held") journal.append([{ _tag: "HandedOver" }], [])
  journal.seal()
}
