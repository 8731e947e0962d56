import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { Outcome } from "@bowline/domain/plan/Outcome"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { type MessagePart, type NewMessage, MessageId } from "@bowline/domain/session/Message"
import { notMade, unknownEffect } from "../provider/LegalHistory.ts"
import { fromEvents } from "../store/EventRow.ts"
import * as PlanGist from "../store/PlanGist.ts"
import { entriesOf, type InboxContent } from "../store/InboxStore.ts"
import { entryChanged } from "../planner/PlanInbox.ts"
import type { AbandonedPlan, PlanChange, PlanCommit } from "../store/PlanStore.ts"
import { headOf } from "../planner/Resumption.ts"

const error = { code: "interrupted", message: "The process that ran the call is gone" }

/**
 * The end of a plan that no process can resume: it is over, and the effect of its open calls is unknown. `text` is the part of an
 * unfinished answer that readers have seen. The history keeps it as partial text. Nothing of the plan's `inbox` is taken any more.
 */
export const settlement = (
  abandoned: AbandonedPlan,
  inbox: InboxContent,
  gist: PlanGist.PlanGist | undefined,
  text: string,
  now: number,
  uuid: () => string
): PlanCommit => {
  const { plan, guard, tasks, unanswered } = abandoned
  const open = tasks.filter(({ state }) => state === "running")
  const at = fromMillis(now)
  const head = headOf(abandoned)
  const { plan_id, session_id, stage, model, steps, tool_calls, retries, usage, cost_usd } = plan
  const untaken = entriesOf(inbox)
  const outcome: Outcome = {
    state: "failed",
    error: {
      code: "interrupted",
      message: "The process that ran the plan is gone",
      retryable: true,
      stage,
      ...(text === "" ? {} : { data: { partial: true } }),
      ...(untaken.length === 0 ? {} : { untaken })
    }
  }
  const append = (role: NewMessage["role"], part: MessagePart): PlanChange => ({
    _tag: "MessageAppended",
    message: { message_id: MessageId.make(`msg_${uuid()}`), role, parts: [part] },
    at
  })
  const partial = text === "" ? [] : [append("assistant", { type: "text", text, partial: true })]
  const begun = new Set(tasks.map(({ task_id }) => task_id))
  const changes = open.map(({ task_id }): PlanChange => ({
    _tag: "TaskFinished",
    task_id,
    state: "interrupted",
    result: unknownEffect,
    error,
    at
  }))
  const results = unanswered.map((task_id) => {
    const content = begun.has(task_id) ? unknownEffect : notMade
    return append("tool", { type: "tool_result", task_id, state: "interrupted", content })
  })
  const finished = open.map((task): PlanEvent => ({
    event: "task.finished",
    data: {
      task_id: task.task_id,
      state: "interrupted",
      remote_task_id: task.remote_task_id,
      remote_context_id: task.remote_context_id,
      duration_ms: Math.max(now - Date.parse(task.started_at), 0),
      error
    }
  }))
  const events: ReadonlyArray<PlanEvent> = [
    ...finished,
    { event: "error", data: outcome.error },
    { event: "done", data: {} }
  ]
  const progress = { model, steps, tool_calls, retries, usage, cost_usd }
  return {
    plan_id,
    session_id,
    guard,
    changes: [
      ...changes,
      ...results,
      ...partial,
      ...untaken.map((id) => entryChanged(id, "untaken")),
      { _tag: "Settled", outcome, progress, at },
      PlanGist.summed(gist && PlanGist.add(gist, events, at))
    ],
    events: fromEvents(head.seq + 1, at > head.at ? at : head.at, events),
    inbox: { seen: inbox.count, closes: true }
  }
}
