import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, type Plan, type PlanState, type PlanId, type PlanSummary } from "@bowline/domain/plan/Plan"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import {
  type HopsExceeded,
  type IdempotencyConflict,
  InvalidRequest,
  type NotAccepting,
  type NotFound,
  type SessionBusy
} from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/time/Timestamp"
import { Clock, Context, Effect, Layer, Option, type Scope, Stream } from "effect"
import { Asker } from "../asking/Asker.ts"
import { Compaction } from "../compaction/Compaction.ts"
import { SessionCompaction } from "./SessionCompaction.ts"
import type { Route } from "../peer/PeerClient.ts"
import type { Page, PageRequest } from "../store/Page.ts"
import * as Expiry from "./Expiry.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import { Sessions } from "./Sessions.ts"
import { SessionStore } from "../store/SessionStore.ts"
import { GroupCommit } from "../stream/GroupCommit.ts"
import type { Reading } from "../stream/LivePlan.ts"
import { RemotePlans } from "../stream/RemotePlans.ts"
import * as StoredFrames from "../stream/StoredFrames.ts"
import { cancel } from "./Cancellation.ts"
import * as Hops from "./Hops.ts"
import type { Idempotency } from "../store/Idempotency.ts"
import { NewPlans } from "./NewPlans.ts"
import { InputValidator } from "../tool/InputValidator.ts"
import { Planner } from "../planner/Planner.ts"
import { PlanStore } from "../store/PlanStore.ts"
import * as Recovery from "./Recovery.ts"
import { type RunningPlan, RunningPlans } from "./RunningPlans.ts"

/** Runs plans, and lets callers read and end them. */
export class Plans extends Context.Service<
  Plans,
  {
    /**
     * Checks the request, stores the plan and starts it in a fiber that `Plans` owns. The caller is its first reader until the
     * scope closes: with `on_disconnect: "cancel"` the plan is aborted when its last reader has gone. `came` is the way on which
     * other gateways have sent the plan here, if they have. With `idempotency` the plan is started only if its key stands for none:
     * else the caller is one more reader of that plan, from its first frame on, wherever it runs and also when it is over. What is
     * refused leaves no key behind.
     */
    readonly start: (
      caller: CallerName,
      request: PlanRequest,
      came?: Route,
      idempotency?: Idempotency
    ) => Effect.Effect<
      { readonly plan_id: PlanId; readonly session_id: SessionId } & Reading,
      InvalidRequest | HopsExceeded | SessionBusy | IdempotencyConflict | NotAccepting | StorageError,
      Scope.Scope
    >
    readonly get: (caller: CallerName, id: PlanId) => Effect.Effect<Plan, NotFound | StorageError>
    /** Newest first. `session` is the gateway's id, or the caller's name of it. */
    readonly list: (
      caller: CallerName,
      filter: { readonly session?: string; readonly state?: PlanState },
      page: PageRequest
    ) => Effect.Effect<Page<PlanSummary>, NotFound | StorageError>
    /**
     * The plan's frames behind `after` (0: from the start), live to the end. A cursor past the head is invalid; at the end of a
     * plan that is over there is nothing to read. A reader for as long as the scope is open.
     */
    readonly events: (
      caller: CallerName,
      id: PlanId,
      after: number
    ) => Effect.Effect<
      { readonly session_id: SessionId } & Reading,
      NotFound | InvalidRequest | StorageError,
      Scope.Scope
    >
    /** Aborts the plan (`cancelled`) and gives it as it is once settled. A plan that is over stays as it is. */
    readonly cancel: (caller: CallerName, id: PlanId) => Effect.Effect<Plan, NotFound | StorageError>
    /**
     * From now on `start` refuses with `draining`. Returns when no plan runs here any more: of those that still do when the grace is over
     * the ones that another process can go on with are left to it, with their streams closed, and the others are aborted (`shutdown`).
     * Who reads a plan of another process is then asked to come back, too.
     */
    readonly drain: Effect.Effect<void>
    readonly isDraining: Effect.Effect<boolean>
  }
>()("@bowline/runtime/plan/Plans") {
  static readonly layerNoDeps = Layer.effect(
    Plans,
    Effect.gen(function* () {
      const running = yield* RunningPlans
      const started = yield* NewPlans
      const store = yield* PlanStore
      const sessions = yield* SessionStore
      const remote = yield* RemotePlans

      /** The frames behind `after` of a plan that runs here: first those that are there, then those that come. */
      const attach = Effect.fnUntraced(function* ({ live, run }: RunningPlan, after: number) {
        const { head, frames, overdue, cutOff } = yield* live.attach
        const recent = live.recent(after, head)
        const earlier =
          recent === undefined ? StoredFrames.between(store, run.given.plan_id, after, head) : Stream.fromArray(recent)
        // Where another replica's reader was faster than this one's writer, `after` is ahead of `head`.
        const later =
          after > head ? Stream.filter(frames, (item) => typeof item === "string" || item.seq > after) : frames
        const all = Stream.concat(earlier, later).pipe(
          Stream.catchTag("StorageError", () => Stream.fromEffect(Effect.as(cutOff, "reconnect" as const)))
        )
        return { frames: all, overdue }
      })

      const events = Effect.fnUntraced(function* (caller: CallerName, id: PlanId, after: number) {
        const stored = yield* store.get(caller, id)
        const { session_id } = stored
        const plan = yield* started.find(id)
        const [last] = after === 0 ? [] : yield* store.events(id, after - 1, 1)
        if (after > 0 && last === undefined) {
          return yield* new InvalidRequest({
            issues: [{ path: ["Last-Event-ID"], message: "Expected no more than the last seq of the plan" }]
          })
        }
        if (plan === undefined) {
          const elsewhere = isSettled(stored) ? undefined : yield* remote.connect(id)
          return { session_id, frames: StoredFrames.follow(store, id, after, elsewhere), overdue: Effect.never }
        }
        return { session_id, ...(yield* attach(plan, after)) }
      })

      const join = (caller: CallerName, plan_id: PlanId) =>
        Effect.map(events(caller, plan_id, 0), (reader) => ({ plan_id, ...reader }))

      const start: Plans["Service"]["start"] = (caller, request, came = Hops.direct, idempotency) =>
        Effect.gen(function* () {
          if (idempotency !== undefined) {
            const now = fromMillis(yield* Clock.currentTimeMillis)
            const known = yield* store.findByKey(caller, idempotency, now)
            if (Option.isSome(known)) return yield* join(caller, known.value)
          }
          return yield* started.start(caller, request, came, idempotency, (plan) => {
            const { plan_id, session_id } = plan.run.given
            return Effect.map(attach(plan, 0), (reading) => ({ plan_id, session_id, ...reading }))
          })
        }).pipe(
          Effect.catchTag("PlanExists", ({ plan_id }) => join(caller, plan_id)),
          // Its session has been deleted meanwhile, and the key is free again.
          Effect.catchTag("NotFound", () => start(caller, request, came, idempotency))
        )

      return {
        start,
        get: store.get,
        list: Effect.fnUntraced(function* (caller, { session, state }, page) {
          const found = session === undefined ? undefined : yield* sessions.find(caller, session)
          return yield* store.list(
            caller,
            {
              ...(found === undefined ? {} : { session: found.session_id }),
              ...(state === undefined ? {} : { state })
            },
            page
          )
        }),
        events,
        cancel: Effect.fnUntraced(function* (caller, id) {
          const plan = yield* store.get(caller, id)
          if (isSettled(plan)) return plan
          yield* cancel({ running, remote, store }, caller, id)
          return yield* store.get(caller, id)
        }),
        drain: Effect.andThen(running.drain, remote.close),
        isDraining: Effect.sync(running.isDraining)
      }
    })
  )

  /** With its own parts, and `Sessions`, which end plans, too, and `SessionCompaction`. What is left open: the stores, the provider, the peers and the configuration. */
  static readonly layer = Layer.mergeAll(
    Plans.layerNoDeps,
    Sessions.layer,
    SessionCompaction.layer,
    Recovery.layer,
    Expiry.layer
  ).pipe(
    Layer.provide(NewPlans.layer),
    Layer.provide([RunningPlans.layer, RemotePlans.layer]),
    Layer.provide(Layer.provide(Planner.layer, InputValidator.layer)),
    Layer.provide(Compaction.layer),
    Layer.provide(Asker.layer),
    Layer.provide([SessionLock.layer, GroupCommit.layer])
  )
}
