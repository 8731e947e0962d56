import {
  type AbortReason,
  type EntryId,
  isRetryable,
  type Failure,
  type Outcome,
  type Stage
} from "@bowline/domain/plan/Outcome"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { Exit, Option } from "effect"
import type { ProviderError } from "@bowline/domain/provider/ProviderError"
import type { MessagePart } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { retryAfterMs } from "../asking/RetryPolicy.ts"
import type { PlannerError } from "../planner/PlannerError.ts"
import type { Ending, PlanAnswer, PlanRun, Snapshot } from "../planner/PlanRun.ts"
import type { TaskEnd } from "../planner/PlanTasks.ts"
import { entryChanged } from "../planner/PlanInbox.ts"
import type { LeaseLost } from "../store/LeaseStore.ts"
import type { NewPlan, PlanChange } from "../store/PlanStore.ts"

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
  if (end._tag === "HandedOver" || end._tag === "Parked") return undefined
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

/** The plan that asks what this one could not take any more. */
export interface Next {
  readonly plan: NewPlan
  readonly entries: ReadonlyArray<EntryId>
}

/** The outcome with the entries that the plan leaves, and what becomes of those. */
const withEntries = (outcome: Outcome, untaken: ReadonlyArray<EntryId>, next: Next | undefined): Outcome => {
  const left = untaken.length === 0 ? {} : { untaken }
  if (outcome.state !== "completed") return { ...outcome, error: { ...outcome.error, ...left } }
  const moved = next?.entries.map((entry_id) => ({ entry_id, plan_id: next.plan.plan_id }))
  return { ...outcome, final: { ...outcome.final, ...(moved && { moved }), ...left } }
}

/**
 * Proposes the end of a plan. What is open gets its result, partial text is kept for show, then come the outcome and `done`. With
 * `isReleased` the session is free in the same commit. Nothing more of the plan is written after it, unless the proposal is dropped, since
 * something was said to the plan that it has not read: then it is proposed again.
 */
export const settle = (
  run: PlanRun,
  end: End,
  outcome: Outcome,
  now: number,
  { isReleased, next }: { readonly isReleased: boolean; readonly next: Next | undefined }
): Outcome => {
  const { journal } = run.given
  run.countUsage()
  const { asking, untaken } = run.inbox.left(outcome.state === "completed")
  const moved = new Set(next?.entries)
  const lost = [...asking.map(({ entry_id }) => entry_id).filter((id) => !moved.has(id)), ...untaken]
  const told = withEntries(outcome, lost, next)
  const last = lastParts(end, run.snapshot())
  const rest = run.hasLeft ? { changes: [], events: [] } : run.tasks.finishAll(interrupted, now)
  const messages = last === undefined || run.hasLeft ? [] : [run.message("assistant", last, now)]
  const changes: ReadonlyArray<PlanChange> = [
    ...lost.map((id) => entryChanged(id, "untaken")),
    ...(next === undefined ? [] : next.entries.map((id) => entryChanged(id, "moved", { moved_to: next.plan.plan_id }))),
    { _tag: "Settled", outcome: told, progress: run.progress, at: fromMillis(now) },
    ...(next === undefined ? [] : [{ _tag: "Continued", plan: next.plan } as const]),
    ...(isReleased ? [{ _tag: "Released" } as const] : [])
  ]
  const events: ReadonlyArray<PlanEvent> = [
    ...(next === undefined
      ? []
      : next.entries.map((entry_id) => ({
          event: "inbox.moved" as const,
          data: { entry_id, moved_to: next.plan.plan_id }
        }))),
    told.state === "completed" ? { event: "final", data: told.final } : { event: "error", data: told.error },
    { event: "done", data: {} }
  ]
  // In one commit: after a crash between them, the next process would find an answer without the reason why it stopped, or give calls
  // a second result.
  const isCompleted = outcome.state === "completed"
  if (!isCompleted) {
    journal.defer([...rest.changes, ...messages], rest.events)
    run.hasLeft = true
  }
  journal.seal()
  // A plan that has completed may go on after all: then its answer is written by its next step.
  if (isCompleted) journal.propose([...rest.changes, ...messages, ...changes], [...rest.events, ...events], nothing)
  else journal.propose(changes, events, nothing)
  return told
}

const nothing = () => undefined

/** Leaves the plan to the next process. Unless the plan is lost already, also stores that this process shut down in order. */
export const handOver = (run: PlanRun, why: "handed over" | "lost"): void => {
  const { journal } = run.given
  run.leave(why)
  run.countUsage()
  if (why === "handed over") journal.append([{ _tag: "HandedOver" }], [])
  journal.seal()
}

/**
 * Proposes to park a plan that only waits: it is left as a hand-over leaves it, without its lease, until something wakes it. If something was said to it
 * that it has not read, the journal is open again before it is read. With `runsOn` the plan needs no reader from now on, if it `isHeld` none as long as it waits.
 */
export const park = (
  run: PlanRun,
  leftMs: number,
  { isHeld, runsOn }: { readonly isHeld: boolean; readonly runsOn: boolean }
): void => {
  const { journal, request } = run.given
  const ends = run.inbox.waits.map(({ expires_at }) => expires_at).toSorted()
  const preferences = runsOn ? { ...request.preferences, on_disconnect: "continue" as const } : request.preferences
  const needsReader = preferences.on_disconnect === "cancel" && !isHeld
  run.countUsage()
  journal.seal()
  journal.propose(
    [
      run.progressed(run.stage),
      { _tag: "Parked", leftMs, until: ends.at(-1) ?? null, preferences, needsReader },
      { _tag: "Released" }
    ],
    [{ event: "parked", data: { wakes_at: ends[0] ?? null } }],
    () => journal.reopen()
  )
}
