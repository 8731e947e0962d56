import type { PlanId } from "@bowline/domain/plan/Plan"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, Effect, Latch, Layer, type Scope } from "effect"
import { type InboxContent, InboxStore } from "../store/InboxStore.ts"
import { Notices, pollAfter } from "../store/Notices.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { Journal } from "../stream/Journal.ts"
import { observe } from "../telemetry/Instrument.ts"
import { approvals } from "../telemetry/PlanMetrics.ts"
import { PlanInbox } from "./PlanInbox.ts"

/** Reads what is said to the plans of this process, on whatever replica it is accepted. */
export class Inboxes extends Context.Service<
  Inboxes,
  {
    /** The inbox of a plan, which is read until the scope closes. `content` is what is known of it already. */
    readonly open: (
      plan: PlanId,
      journal: Journal,
      content: InboxContent
    ) => Effect.Effect<PlanInbox, never, Scope.Scope>
    /** The plan's inbox has more than was read. */
    readonly look: (plan: PlanId) => void
  }
>()("@bowline/runtime/planner/Inboxes") {
  /**
   * Reads an inbox when a notice or a commit of the plan says that it has more, and when a wait begins; and those of all plans that wait
   * every few seconds, in case a notice was lost: all in one statement.
   */
  static readonly layer = Layer.effect(
    Inboxes,
    Effect.gen(function* () {
      const store = yield* InboxStore
      const notices = yield* Notices
      const inboxes = new Map<PlanId, PlanInbox>()
      const changed = new Set<PlanId>()
      const news = Latch.makeUnsafe(false)
      yield* observe(approvals.of({}), () => Array.from(inboxes.values()).filter(({ isWaiting }) => isWaiting).length)

      const look = (plan: PlanId) => {
        if (!inboxes.has(plan)) return
        changed.add(plan)
        news.openUnsafe()
      }
      yield* notices.subscribe((heard) => {
        if (heard._tag === "InboxChanged") look(heard.plan_id)
        if (heard._tag === "ListeningChanged") for (const plan of inboxes.keys()) look(plan)
      })

      const read = (asked: ReadonlyArray<PlanInbox>): Effect.Effect<void, StorageError> =>
        asked.length === 0
          ? Effect.void
          : Effect.map(store.read(asked.map(({ plan_id, seen }) => ({ plan_id, seen }))), (contents) => {
              for (const content of contents) inboxes.get(content.plan_id)?.receive(content)
            })

      const readAll = Effect.suspend(() => {
        news.closeUnsafe()
        const asked = Array.from(inboxes.values()).filter(({ isWaiting, plan_id }) => isWaiting || changed.has(plan_id))
        changed.clear()
        return Effect.onError(read(asked), () =>
          Effect.sync(() => asked.forEach(({ plan_id }) => changed.add(plan_id)))
        )
      })
      const isIdle = () => changed.size === 0 && !inboxes.values().some(({ isWaiting }) => isWaiting)
      yield* readAll.pipe(
        Effect.catchCause((cause) => Effect.logWarning("inbox_read_failed", cause)),
        Effect.andThen(
          Effect.suspend(() => (isIdle() ? news.await : Effect.timeoutOption(news.await, pollAfter(notices))))
        ),
        Effect.forever,
        Effect.forkScoped
      )

      return {
        open: (plan, journal, content) =>
          Effect.acquireRelease(
            Effect.sync(() => {
              const inbox = new PlanInbox(plan, journal, content.count, {
                read: (inbox) => retryWhileAway(read([inbox])),
                onWait: () => news.openUnsafe()
              })
              inboxes.set(plan, inbox)
              inbox.receive(content)
              return inbox
            }),
            (inbox) =>
              Effect.sync(() => {
                if (inboxes.get(plan) === inbox) inboxes.delete(plan)
              })
          ),
        look
      }
    })
  )
}
