import type { CallerName } from "@bowline/domain/caller/CallerName"
import { type NotFound, SessionBusy } from "@bowline/domain/plan/Refusal"
import type { Compacted, SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, Data, Deferred, Duration, Effect, Exit, Layer, RcMap } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import * as ModelLimits from "../asking/ModelLimits.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import { PlanStore } from "../store/PlanStore.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import { SessionStore } from "../store/SessionStore.ts"
import { Compaction } from "../compaction/Compaction.ts"
import { contextBlock } from "../compaction/Summary.ts"

/** The model returned no usable summary, or has failed so often lately that it is not asked. */
export class NoSummary extends Data.TaggedError("NoSummary") {
  override readonly message = "No summary could be made. The log says why"
}

type Failure = NotFound | SessionBusy | NoSummary | StorageError

interface Key {
  readonly caller: CallerName
  readonly session: SessionId
}

const busy = new SessionBusy({ message: "The session has a plan that is not over" })

/** How long to wait for the session. A plan that has just ended, or another change from outside, may still hold it; a new plan may get it first. */
const freeTimeout = "10 seconds"

/** How long a summary may take: as long as a plan with the default time-out. */
const timeout = Duration.minutes(30)

const unpaid = { reported: () => undefined, ended: () => undefined }

/**
 * Compacts a session at a caller's request, while no plan has the session.
 *
 * @example
 * ```ts
 * import type { CallerName } from "@bowline/domain/caller/CallerName"
 * import { SessionCompaction } from "@bowline/runtime/plan/SessionCompaction"
 * import { Effect } from "effect"
 *
 * export const compact = (caller: CallerName, session: string) =>
 *   Effect.flatMap(SessionCompaction, (compaction) => compaction.compact(caller, session)).pipe(
 *     Effect.catchTag("NoSummary", ({ message }) => Effect.logInfo(message))
 *   )
 * ```
 */
export class SessionCompaction extends Context.Service<
  SessionCompaction,
  {
    /**
     * Compacts everything but the newest turns, as a plan does when its prompt is too long. Returns null if a compaction would gain
     * nothing. A second caller joins a compaction that is under way; it is interrupted when the last of its callers disconnects.
     * It acquires the session as a plan does, and fails with `SessionBusy` if the session has a plan that is not over.
     */
    readonly compact: (caller: CallerName, id: string) => Effect.Effect<Compacted | null, Failure>
  }
>()("@bowline/runtime/plan/SessionCompaction") {
  static readonly layer = Layer.effect(
    SessionCompaction,
    Effect.gen(function* () {
      const sessions = yield* SessionStore
      const plans = yield* PlanStore
      const lock = yield* SessionLock
      const compaction = yield* Compaction
      const config = yield* PlansConfig

      const compact = Effect.fnUntraced(function* (session: SessionId, fence: number) {
        const { contextWindow } = ModelLimits.of(config, config.model)
        const made = yield* compaction.make({
          session,
          stage: "compaction",
          question: undefined,
          models: [config.model, ...config.fallbackModels],
          size: contextWindow,
          isRefused: false,
          frame: (summaries) => ({ system: contextBlock("", summaries) ?? "", tools: [] }),
          remoteTasks: new Map(),
          endsAt: (yield* Monotonic.now) + Duration.toMillis(timeout),
          timeout,
          account: unpaid
        })
        if (made._tag === "Failed") return yield* new NoSummary()
        if (made._tag !== "Summarised") return null
        yield* sessions.compact(session, fence, made.stored)
        return made.event
      })

      const hold = Effect.fnUntraced(function* ({ caller, session }: Key) {
        const states = ["running", "queued", "waiting"] as const
        const { items } = yield* plans.list(caller, { session, states }, { limit: 1 })
        if (items.length > 0) return yield* busy
        const lost = yield* Deferred.make<never, SessionBusy>()
        const fence = yield* lock
          .acquire(session, {
            onQueued: () => undefined,
            onLost: () => Deferred.doneUnsafe(lost, Effect.fail(busy))
          })
          .pipe(Effect.timeoutOrElse({ duration: freeTimeout, orElse: () => Effect.fail(busy) }))
        return yield* Effect.raceFirst(compact(session, fence), Deferred.await(lost)).pipe(
          Effect.catchTag("LeaseLost", () => Effect.andThen(sessions.find(caller, session), Effect.fail(busy)))
        )
      }, Effect.scoped)

      const running: RcMap.RcMap<Key, Compacted | null, Failure> = yield* RcMap.make({
        lookup: (key: Key) =>
          hold(key).pipe(
            // The next caller starts a new compaction. An interrupted one has left the map already.
            Effect.onExit((exit) => (Exit.hasInterrupts(exit) ? Effect.void : RcMap.invalidate(running, key)))
          )
      })

      return {
        compact: Effect.fnUntraced(function* (caller, id) {
          const { session_id } = yield* sessions.find(caller, id)
          return yield* Effect.scoped(RcMap.get(running, { caller, session: session_id }))
        })
      }
    })
  )
}
