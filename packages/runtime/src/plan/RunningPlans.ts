import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { AbortReason } from "@bowline/domain/plan/AbortReason"
import { PlanId } from "@bowline/domain/plan/PlanId"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { InvalidRequest, NotAccepting, type SessionBusy } from "@bowline/domain/plan/Refusal"
import { summary } from "@bowline/domain/peer/Agent"
import { SessionId } from "@bowline/domain/session/SessionId"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/time/Timestamp"
import { Clock, Context, Deferred, Effect, Exit, FiberMap, Layer } from "effect"
import { UuidGenerator } from "../id/UuidGenerator.ts"
import { EnvironmentSecrets } from "../peer/EnvironmentSecrets.ts"
import { SessionLock } from "../session/SessionLock.ts"
import { toFrame } from "../stream/EventRow.ts"
import { GroupCommit } from "../stream/GroupCommit.ts"
import { Journal } from "../stream/Journal.ts"
import { LivePlan } from "../stream/LivePlan.ts"
import { LocalTools } from "../tool/LocalTools.ts"
import * as Admission from "./Admission.ts"
import { Planner } from "./Planner.ts"
import { PlanRun } from "./PlanRun.ts"
import { PlansConfig } from "./PlansConfig.ts"
import { type NewPlan, PlanStore } from "./PlanStore.ts"
import { supervise } from "./PlanSupervisor.ts"

/** Plans that may wait for one session. */
const maxQueue = 32

/** How often the plans of this process are asked for that somebody wants to end from elsewhere. */
const abortPoll = "250 millis"

/** A plan in this process, from its creation until its session is given back. */
export interface RunningPlan {
  readonly run: PlanRun
  readonly live: LivePlan
  readonly over: Deferred.Deferred<void>
}

/** The plans of this process, and the fibers that run them. */
export class RunningPlans extends Context.Service<
  RunningPlans,
  {
    readonly start: (
      caller: CallerName,
      request: PlanRequest
    ) => Effect.Effect<RunningPlan, InvalidRequest | SessionBusy | NotAccepting | StorageError>
    readonly find: (id: PlanId) => RunningPlan | undefined
    /** Refuses new plans, lets those that run go on for the grace, and aborts the rest. */
    readonly drain: Effect.Effect<void>
    readonly isDraining: () => boolean
  }
>()("@bowline/runtime/plan/RunningPlans") {
  static readonly layer = Layer.effect(
    RunningPlans,
    Effect.gen(function* () {
      const config = yield* PlansConfig
      const store = yield* PlanStore
      const lock = yield* SessionLock
      const planner = yield* Planner
      const writer = yield* GroupCommit
      const secrets = yield* EnvironmentSecrets
      const localTools = (yield* LocalTools).map(({ name }) => name)
      const uuid = yield* UuidGenerator
      const fibers = yield* FiberMap.make<PlanId, void, never>()
      const plans = new Map<PlanId, RunningPlan>()
      let draining = false

      const abortAll = (reason: AbortReason) =>
        Effect.suspend(() => {
          for (const { run } of plans.values()) run.abort(reason)
          return FiberMap.awaitEmpty(fibers)
        })
      yield* Effect.addFinalizer(() => abortAll("shutdown"))

      const listen = Effect.suspend(() =>
        plans.size === 0 ? Effect.succeed([]) : store.abortRequests(lock.replica)
      ).pipe(
        Effect.map((requests) => {
          for (const { plan_id, reason } of requests) plans.get(plan_id)?.run.abort(reason)
        }),
        // The database is away: whoever asked gets no answer either, and the next round asks again.
        Effect.ignore,
        Effect.delay(abortPoll),
        Effect.forever
      )
      if (store.isShared) yield* Effect.forkScoped(listen)

      const admit = (request: PlanRequest) =>
        Effect.suspend((): Effect.Effect<void, NotAccepting | InvalidRequest> => {
          if (draining) return Effect.fail(new NotAccepting({ code: "draining" }))
          const issues = Admission.check(request, {
            allowsModel: config.allowsModel,
            allowsVariable: secrets.isAllowed,
            localTools
          })
          if (issues.length > 0) return Effect.fail(new InvalidRequest({ issues }))
          return plans.size >= config.maxPlans ? Effect.fail(new NotAccepting({ code: "unavailable" })) : Effect.void
        })

      /** Ends the older plans of the session, wherever they run. */
      const supersede = Effect.fnUntraced(function* (caller: CallerName, { plan_id, session_id }: PlanRun["given"]) {
        for (const state of ["running", "queued"] as const) {
          const { items } = yield* store.list(caller, { session: session_id, state }, { limit: maxQueue * 2 })
          const own = items.findIndex((plan) => plan.plan_id === plan_id)
          for (const older of items.slice(own + 1)) {
            plans.get(older.plan_id)?.run.abort("superseded")
            yield* store.requestAbort(older.plan_id, "superseded")
          }
        }
      })

      const launch = Effect.fnUntraced(function* (
        caller: CallerName,
        request: PlanRequest,
        plan: NewPlan,
        session: Effect.Success<ReturnType<PlanStore["Service"]["create"]>>,
        times: { readonly createdAt: number; readonly deadline: number }
      ) {
        const { plan_id, model } = plan
        const ids = { plan_id, session_id: session.session_id }
        const started = Deferred.makeUnsafe<RunningPlan>()
        const fiber = Effect.gen(function* () {
          const live = new LivePlan(
            yield* Effect.scope,
            Effect.sync(() => {
              if (request.preferences.on_disconnect === "cancel") run.abort("disconnect")
            })
          )
          const guard = { _tag: "Queued", replica: lock.replica, fence: 0 } as const
          const journal = new Journal(ids, guard, 1, live, writer.notify)
          const run: PlanRun = new PlanRun({ ...ids, ...times, caller, request, model, journal, uuid })
          const { external_session_id, created } = session
          const first = { event: "session", data: { external_session_id, created } } as const
          live.publish([toFrame(1, first)], times.createdAt)
          const running: RunningPlan = { run, live, over: Deferred.makeUnsafe() }
          plans.set(plan_id, running)
          yield* Deferred.succeed(started, running)
          yield* supervise(run, live, lock, planner)
        }).pipe(
          Effect.scoped,
          Effect.ensuring(
            Effect.sync(() => {
              const running = plans.get(plan_id)
              plans.delete(plan_id)
              if (running !== undefined) Deferred.doneUnsafe(running.over, Exit.void)
            })
          ),
          Effect.annotateLogs({ ...ids, caller })
        )
        yield* FiberMap.run(fibers, plan_id, fiber)
        return yield* Deferred.await(started)
      })

      return {
        find: (id) => plans.get(id),
        isDraining: () => draining,
        drain: Effect.suspend(() => {
          draining = true
          return FiberMap.awaitEmpty(fibers).pipe(
            Effect.timeoutOrElse({ duration: config.shutdownGrace, orElse: () => abortAll("shutdown") })
          )
        }),
        start: Effect.fnUntraced(
          function* (caller, request) {
            yield* admit(request)
            const createdAt = yield* Clock.currentTimeMillis
            const deadline = createdAt + request.preferences.timeout_ms
            const plan: NewPlan = {
              plan_id: PlanId.make(`plan_${uuid()}`),
              new_session_id: SessionId.make(`session_${uuid()}`),
              owner: caller,
              external_session_id: request.session_id ?? null,
              agents: request.agents.map(summary),
              question: request.question,
              preferences: request.preferences,
              metadata: request.metadata,
              model: request.preferences.model ?? config.model,
              created_at: fromMillis(createdAt),
              deadline_at: fromMillis(deadline),
              replica: lock.replica
            }
            const session = yield* store.create(plan, maxQueue)
            const running = yield* launch(caller, request, plan, session, { createdAt, deadline })
            if (request.preferences.on_busy === "interrupt" && !session.created) {
              yield* supersede(caller, running.run.given).pipe(
                Effect.tapError(() => Effect.sync(() => running.run.abort("cancelled")))
              )
            }
            return running
          },
          // A plan that is stored has a fiber, though its caller has left in between.
          Effect.uninterruptible
        )
      }
    })
  )
}
