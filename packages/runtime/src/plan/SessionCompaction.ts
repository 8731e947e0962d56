import type { CallerName } from "@bowline/domain/caller/CallerName"
import { type NotFound, SessionBusy } from "@bowline/domain/plan/Refusal"
import type { Compacted, SessionId } from "@bowline/domain/session/Session"
import { add, empty, type Usage } from "@bowline/domain/plan/Usage"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Context, Data, Deferred, Duration, Effect, Exit, Layer, RcMap } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import type { Used } from "../asking/Listener.ts"
import * as ModelLimits from "../asking/ModelLimits.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import { PlanStore } from "../store/PlanStore.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import { SessionStore } from "../store/SessionStore.ts"
import { Compaction } from "../compaction/Compaction.ts"
import { contextBlock } from "../compaction/Summary.ts"
import { refusal } from "../planner/DailyAllowance.ts"

/** The model returned no usable summary, or has failed so often lately that it is not asked. */
export class NoSummary extends Data.TaggedError("NoSummary") {
  override readonly message = "No summary could be made. The log says why"
}

/** The caller has nothing left of its budget. The message says of which, and when it has some again; `nextDay` is the number of seconds until the next day begins. */
export class BudgetSpent extends Data.TaggedError("BudgetSpent")<{
  readonly message: string
  readonly nextDay: number
}> {}

/** A compaction that was asked for. `usage` is that of all its requests, also of those that failed. */
export interface SessionCompacted extends Compacted {
  readonly usage: Usage
}

type Failure = NotFound | SessionBusy | NoSummary | BudgetSpent | StorageError

interface Key {
  readonly caller: CallerName
  readonly session: SessionId
}

const busy = new SessionBusy({ message: "The session has a plan that is not over" })

/** How long to wait for the session. A plan that has just ended, or another change from outside, may still hold it; a new plan may get it first. */
const freeTimeout = "10 seconds"

const dayMs = 86_400_000

const dayOf = (now: number): string => fromMillis(now).slice(0, 10)

/** How long a summary may take: as long as a plan with the default time-out. */
const timeout = Duration.minutes(30)

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
     * It acquires the session as a plan does, and fails with `SessionBusy` if the session has a plan that is not over. Its requests are charged to the caller, who has to have
     * something left: else it fails with `BudgetSpent`.
     */
    readonly compact: (caller: CallerName, id: string) => Effect.Effect<SessionCompacted | null, Failure>
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

      const checkBudget = Effect.fnUntraced(function* (caller: CallerName) {
        const budget = config.budgetOf(caller)
        if (budget === undefined) return
        const now = yield* Clock.currentTimeMillis
        const refused = refusal(caller, budget, yield* plans.spent(caller, dayOf(now)), now)
        if (refused === undefined) return
        const nextDay = Math.ceil((dayMs - (now % dayMs)) / 1_000)
        return yield* new BudgetSpent({ message: refused.message, nextDay })
      })

      /** Charges the caller with what was used, also by requests that gave no summary. */
      const charge = (caller: CallerName, used: ReadonlyArray<Used>) =>
        Effect.gen(function* () {
          const day = dayOf(yield* Clock.currentTimeMillis)
          for (const { cost_usd, model, usage } of used) {
            const charged = plans.charge(caller, { day, model, plans: 0, tool_calls: 0, usage, cost_usd })
            yield* Effect.ignore(charged, { log: "Warn", message: "storage_failed" })
          }
        })

      const compact = Effect.fnUntraced(function* ({ caller, session }: Key, fence: number) {
        yield* checkBudget(caller)
        const used: Array<Used> = []
        let reported: Used | undefined
        const { contextWindow } = ModelLimits.of(config, config.model)
        const making = compaction.make({
          session,
          stage: "compaction",
          question: undefined,
          models: [config.model, ...config.fallbackModels],
          size: contextWindow,
          isRefused: false,
          mayAsk: true,
          frame: (summaries) => ({ system: contextBlock("", summaries) ?? "", tools: [] }),
          remoteTasks: new Map(),
          endsAt: (yield* Monotonic.now) + Duration.toMillis(timeout),
          timeout,
          account: {
            reported: (now) => void (reported = now),
            ended: () => {
              if (reported !== undefined) used.push(reported)
              reported = undefined
            }
          }
        })
        const made = yield* Effect.ensuring(
          making,
          Effect.suspend(() => charge(caller, used))
        )
        if (made._tag === "Failed") return yield* new NoSummary()
        if (made._tag !== "Summarised") return null
        yield* sessions.compact(session, fence, made.stored)
        return { ...made.event, usage: used.reduce((sum, { usage }) => add(sum, usage), empty) }
      })

      const hold = Effect.fnUntraced(function* (key: Key) {
        const { caller, session } = key
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
        return yield* Effect.raceFirst(compact(key, fence), Deferred.await(lost)).pipe(
          Effect.catchTag("LeaseLost", () => Effect.andThen(sessions.find(caller, session), Effect.fail(busy)))
        )
      }, Effect.scoped)

      const running: RcMap.RcMap<Key, SessionCompacted | null, Failure> = yield* RcMap.make({
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
