import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, type Plan, type PlanId, type PlanSummary } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type {
  EntryRefused,
  HopsExceeded,
  IdempotencyConflict,
  EventsExpired,
  InvalidRequest,
  NotAccepting,
  NotFound,
  SessionBusy
} from "@bowline/domain/plan/Refusal"
import { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, Effect, Layer, Schema, type Scope, Stream } from "effect"
import { AskerFacts } from "../config/AskerFacts.ts"
import { Permissions } from "../config/Permissions.ts"
import type { Files } from "../file/Files.ts"
import { allowed, type Preset, Presets, type PresetSkill, skillsOf } from "../config/Presets.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import type { McpClient } from "../remote/McpClient.ts"
import { Planner } from "../planner/Planner.ts"
import type { Provider } from "../provider/Provider.ts"
import { toEvent } from "../store/EventRow.ts"
import type { Page, PageRequest } from "../store/Page.ts"
import type { ReplicaId } from "../store/LeaseStore.ts"
import { type PlanFilter, PlanStore } from "../store/PlanStore.ts"
import { SessionStore } from "../store/SessionStore.ts"
import type { PlanReader } from "../stream/LivePlan.ts"
import type { PlanFollower } from "../stream/PlanFollower.ts"
import { RemotePlans } from "../stream/RemotePlans.ts"
import { cancel } from "./Cancellation.ts"
import { Inbox } from "./Inbox.ts"
import type { Asked } from "./NewPlans.ts"
import * as PlanEngine from "./PlanEngine.ts"
import type { PlanNeeds, PlansOptions } from "./PlanEngine.ts"
import { PlanStreams } from "./PlanStreams.ts"
import { RunningPlans } from "./RunningPlans.ts"
import type { SessionCompaction } from "./SessionCompaction.ts"
import type { Sessions } from "./Sessions.ts"

export type { Asked, Files, Page, PageRequest, PlanFilter, PlanFollower, PlanStreams, Preset, PresetSkill, ReplicaId }
export type { PlanNeeds, PlansOptions, PlanStore, SessionStore }

/** What an app gets with plans: who starts, reads and follows them, and their sessions. */
export type PlanServices = Files | Inbox | PlanFollower | Plans | PlanStreams | SessionCompaction | Sessions

const toEvents = (frames: PlanReader): Stream.Stream<PlanEvent, StorageError> =>
  Stream.flatMap(frames, (item) => (typeof item === "string" ? Stream.empty : Stream.succeed(toEvent(item))))

const isSessionId = Schema.is(SessionId)

/**
 * Runs plans, and lets callers read and end them.
 *
 * @example
 * ```ts
 * import type { CallerName } from "@bowline/domain/caller/CallerName"
 * import type { PlanId } from "@bowline/domain/plan/Plan"
 * import { Plans } from "@bowline/runtime/plan/Plans"
 * import { Effect } from "effect"
 *
 * export const stateOf = (caller: CallerName, plan: PlanId) =>
 *   Effect.flatMap(Plans, (plans) => Effect.map(plans.get(caller, plan), ({ state }) => state))
 * ```
 */
export class Plans extends Context.Service<
  Plans,
  {
    /**
     * Checks the request, stores the plan and starts it in a fiber that `Plans` owns. `events` ends with `done`, or without it when
     * this process does not run the plan to its end: then `events` of the plan go on from there. The caller reads the plan until
     * the scope closes: with `on_disconnect: "cancel"`, the default, the plan is aborted when its last reader disconnects. With
     * `idempotency` a second start with the same key joins the plan of the first one.
     */
    readonly start: (asked: Asked) => Effect.Effect<
      {
        readonly plan_id: PlanId
        readonly session_id: SessionId
        readonly events: Stream.Stream<PlanEvent, StorageError>
      },
      | InvalidRequest
      | EntryRefused
      | EventsExpired
      | HopsExceeded
      | SessionBusy
      | IdempotencyConflict
      | NotAccepting
      | StorageError,
      Scope.Scope
    >
    /** The presets that the caller may use. */
    readonly presets: (caller: CallerName) => Effect.Effect<ReadonlyArray<Preset>>
    /** The skills of those presets that the caller may call. */
    readonly skills: (caller: CallerName) => Effect.Effect<ReadonlyArray<PresetSkill>>
    /** The events of the plan from its first one, live to the end. The caller is a reader while it runs the stream. */
    readonly events: (
      caller: CallerName,
      id: PlanId
    ) => Stream.Stream<PlanEvent, NotFound | InvalidRequest | EventsExpired | StorageError>
    /** The plan as it is stored now. Another caller's plan is not found. */
    readonly get: (caller: CallerName, id: PlanId) => Effect.Effect<Plan, NotFound | StorageError>
    /** Newest first: those of the caller, or of everybody if there is none. `session` is the gateway's id, or the caller's name of it. */
    readonly list: (
      caller: CallerName | undefined,
      filter: Omit<PlanFilter, "session" | "before"> & { readonly session?: string },
      page: PageRequest
    ) => Effect.Effect<Page<PlanSummary>, NotFound | StorageError>
    /** Aborts the plan (`cancelled`), and returns it when it is settled. A plan that is over stays as it is. */
    readonly cancel: (caller: CallerName, id: PlanId) => Effect.Effect<Plan, NotFound | StorageError>
    /** The calls of this caller's plans that wait for a decision, newest first. */
    readonly approvals: Inbox["Service"]["approvals"]
    /** Those of one plan of this caller. */
    readonly approvalsOf: Inbox["Service"]["approvalsOf"]
    /** See `Inbox`. */
    readonly decide: Inbox["Service"]["decide"]
    /**
     * From now on `start` refuses with `draining`. Returns when no plan runs here any more. When the grace is over, plans that
     * another process can resume are handed over, with their streams closed, and the others are aborted (`shutdown`). Readers of
     * plans of other processes are then asked to come back, too.
     */
    readonly drain: Effect.Effect<void>
    /** This process, as the store knows it. */
    readonly replica: Effect.Effect<ReplicaId>
    /** Whether `drain` has begun. */
    readonly isDraining: Effect.Effect<boolean>
    /** Whether no lease could be renewed for as long as one lasts: other replicas may take the plans of this one over by now. */
    readonly isOverdue: Effect.Effect<boolean>
  }
>()("@bowline/runtime/plan/Plans") {
  /** `Plans` alone. It leaves open the services that run, stream and store plans. */
  static readonly layerNoDeps = Layer.effect(
    Plans,
    Effect.gen(function* () {
      const running = yield* RunningPlans
      const streams = yield* PlanStreams
      const lock = yield* SessionLock
      const remote = yield* RemotePlans
      const store = yield* PlanStore
      const sessions = yield* SessionStore
      const presets = yield* Presets
      const permissions = yield* Permissions
      const inbox = yield* Inbox

      return {
        start: (asked) =>
          Effect.map(streams.start(asked), ({ plan_id, session_id, frames }) => ({
            plan_id,
            session_id,
            events: toEvents(frames)
          })),
        presets: (caller) =>
          Effect.map(AskerFacts, ({ groups }) => allowed(presets, permissions.forCaller(caller, groups))),
        skills: (caller) =>
          Effect.map(AskerFacts, ({ groups }) => {
            const permission = permissions.forCaller(caller, groups)
            return skillsOf(allowed(presets, permission), permission)
          }),
        events: (caller, id) =>
          Stream.unwrap(Effect.map(streams.read(caller, id, 0), ({ frames }) => toEvents(frames))),
        get: store.get,
        list: Effect.fnUntraced(function* (caller, { session, ...filter }, page) {
          if (session === undefined) return yield* store.list(caller, filter, page)
          if (caller === undefined) {
            // Names of sessions are those of one caller.
            return isSessionId(session)
              ? yield* store.list(caller, { ...filter, session }, page)
              : { items: [], next: null }
          }
          const { session_id } = yield* sessions.find(caller, session)
          return yield* store.list(caller, { ...filter, session: session_id }, page)
        }),
        cancel: Effect.fnUntraced(function* (caller, id) {
          const here = running.find(id)?.run
          // At once, also while the store does not answer.
          if (here?.given.caller === caller) here.abort("cancelled")
          const plan = yield* store.get(caller, id)
          if (isSettled(plan)) return plan
          yield* cancel({ running, remote, store }, caller, id)
          return yield* store.get(caller, id)
        }),
        approvals: inbox.approvals,
        approvalsOf: inbox.approvalsOf,
        decide: inbox.decide,
        drain: Effect.andThen(running.drain, remote.close),
        replica: Effect.succeed(lock.replica),
        isDraining: Effect.sync(running.isDraining),
        isOverdue: Effect.sync(lock.isOverdue)
      }
    })
  )

  /**
   * With its own parts, and with the other services of this folder: `PlanStreams`, `Sessions` and `SessionCompaction`. It leaves open
   * the stores, the credential pool, the peers and the configuration.
   */
  static readonly layerOf = <E, R>(
    planner: Layer.Layer<Planner, E, R>
  ): Layer.Layer<PlanServices, E | StorageError, PlanNeeds | Exclude<R, PlanEngine.PlannerParts>> =>
    Plans.layerNoDeps.pipe(Layer.provideMerge(PlanEngine.layerServices), Layer.provide(PlanEngine.layerOf(planner)))

  /** The same with the planner that asks a model. */
  static readonly layer: Layer.Layer<PlanServices, StorageError, McpClient | PlanNeeds> = Plans.layerOf(Planner.layer)

  /** Plans in memory, on one provider and without peers: what an app starts with. It leaves open the `Provider`. */
  static readonly layerMemory = (config: PlansOptions): Layer.Layer<PlanServices, StorageError, Provider> =>
    Layer.provide(Plans.layer, PlanEngine.layerMemory(config))
}
