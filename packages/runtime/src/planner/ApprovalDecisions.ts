import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Context, Deferred, Effect, Latch, Layer } from "effect"
import { type ApprovalId, ApprovalStore, type StoredDecision } from "../store/ApprovalStore.ts"
import { Notices, pollAfter } from "../store/Notices.ts"
import { observe } from "../telemetry/Instrument.ts"
import { approvals } from "../telemetry/PlanMetrics.ts"

interface Waiting {
  readonly approval: ApprovalId
  readonly decided: Deferred.Deferred<StoredDecision>
}

/** Waits for decisions about calls, on whatever replica they are made. */
export class ApprovalDecisions extends Context.Service<
  ApprovalDecisions,
  {
    /** Returns the decision as soon as one is stored. An approval has at most one who waits for it. */
    readonly wait: (approval: ApprovalId) => Effect.Effect<StoredDecision>
  }
>()("@bowline/runtime/planner/ApprovalDecisions") {
  /** Reads the store when a wait begins, when a notice tells of a decision, and every few seconds in case a notice was lost. */
  static readonly layer = Layer.effect(
    ApprovalDecisions,
    Effect.gen(function* () {
      const store = yield* ApprovalStore
      const notices = yield* Notices
      const waiting = new Map<TaskId, Waiting>()
      const news = Latch.makeUnsafe(false)
      yield* observe(approvals.of({}), () => waiting.size)

      yield* notices.subscribe((heard) => {
        const isNews = heard._tag === "ApprovalDecided" && waiting.has(heard.task_id)
        if (isNews || heard._tag === "ListeningChanged") news.openUnsafe()
      })
      const read = Effect.gen(function* () {
        news.closeUnsafe()
        const approvals = Array.from(waiting.values(), ({ approval }) => approval)
        for (const stored of approvals.length === 0 ? [] : yield* store.decisions(approvals)) {
          const decided = waiting.get(stored.task_id)?.decided
          if (decided !== undefined) Deferred.doneUnsafe(decided, Effect.succeed(stored))
        }
      })
      yield* read.pipe(
        Effect.catchCause((cause) => Effect.logWarning("approval_decisions_failed", cause)),
        Effect.andThen(
          Effect.suspend(() => (waiting.size === 0 ? news.await : Effect.timeoutOption(news.await, pollAfter(notices))))
        ),
        Effect.forever,
        Effect.forkScoped
      )

      return {
        wait: (approval) =>
          Effect.acquireUseRelease(
            Effect.sync(() => {
              const decided = Deferred.makeUnsafe<StoredDecision>()
              waiting.set(approval.task_id, { approval, decided })
              news.openUnsafe()
              return decided
            }),
            Deferred.await,
            () => Effect.sync(() => waiting.delete(approval.task_id))
          )
      }
    })
  )
}
