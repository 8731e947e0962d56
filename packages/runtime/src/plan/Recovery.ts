import { fromMillis } from "@bowline/domain/time/Timestamp"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { Outcome } from "@bowline/domain/plan/Outcome"
import { MessageId } from "@bowline/domain/session/MessageId"
import { Clock, Duration, Effect, Layer } from "effect"
import { UuidGenerator } from "../id/UuidGenerator.ts"
import { LeaseStore } from "../session/LeaseStore.ts"
import { unknownEffect } from "../session/LegalHistory.ts"
import { SessionLock } from "../session/SessionLock.ts"
import { fromEvents } from "../stream/EventRow.ts"
import { Notices } from "../stream/Notices.ts"
import { PlansConfig } from "./PlansConfig.ts"
import { type AbandonedPlan, type PlanChange, type PlanCommit, PlanStore } from "./PlanStore.ts"

const error = { code: "interrupted", message: "The process that ran the call died" }

/** The truth about a plan whose process died: it is over, and nobody knows what its open calls did. */
const settlement = ({ plan, guard, head, open_tasks }: AbandonedPlan, now: number, uuid: () => string): PlanCommit => {
  const at = fromMillis(now)
  const { plan_id, session_id, stage, model, steps, tool_calls, usage } = plan
  const outcome: Outcome = {
    state: "failed",
    error: { code: "interrupted", message: "The process that ran the plan died", retryable: true, stage }
  }
  const changes = open_tasks.flatMap(({ task_id }): ReadonlyArray<PlanChange> => [
    { _tag: "TaskFinished", task_id, state: "interrupted", result: unknownEffect, error, at },
    {
      _tag: "MessageAppended",
      message: {
        message_id: MessageId.make(`msg_${uuid()}`),
        role: "tool",
        parts: [{ type: "tool_result", task_id, state: "interrupted", content: unknownEffect }]
      },
      at
    }
  ])
  const finished = open_tasks.map((task): PlanEvent => ({
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
  const progress = { model, steps, tool_calls, usage }
  return {
    plan_id,
    session_id,
    guard,
    changes: [...changes, { _tag: "Settled", outcome, progress, at }],
    events: fromEvents(head + 1, events)
  }
}

/** Settles what dead processes left behind: at the start, and then every third of a lease, at most 3 s. */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const store = yield* PlanStore
    const leases = yield* LeaseStore
    const lock = yield* SessionLock
    const notices = yield* Notices
    const { leaseTtl } = yield* PlansConfig
    const uuid = yield* UuidGenerator

    /** Taken over, and not settled yet. */
    let left: ReadonlyArray<AbandonedPlan> = []
    const recover = Effect.gen(function* () {
      if (yield* lock.isSteady) left = [...left, ...(yield* store.takeOver(lock.replica, leaseTtl))]
      if (left.length === 0) return
      const now = yield* Clock.currentTimeMillis
      const settling = left
      const refused = yield* store.commit(
        settling.map((abandoned) => settlement(abandoned, now, uuid)),
        true
      )
      left = []
      for (const { plan, guard } of settling) {
        const { plan_id, session_id } = plan
        if (guard._tag === "Held") yield* leases.release(session_id, guard.fence)
        if (refused.has(plan_id)) continue
        yield* Effect.annotateLogs(Effect.logWarning("plan_interrupted"), { plan_id, session_id })
      }
      yield* Effect.ignore(notices.publish(settling.map(({ plan: { plan_id } }) => ({ _tag: "Advanced", plan_id }))))
    })

    const interval = Duration.min(Duration.millis(Duration.toMillis(leaseTtl) / 3), Duration.seconds(3))
    yield* recover
    yield* recover.pipe(
      Effect.catchCause((cause) => Effect.logWarning("recovery_failed", cause)),
      Effect.delay(interval),
      Effect.forever,
      Effect.forkScoped
    )
  })
)
