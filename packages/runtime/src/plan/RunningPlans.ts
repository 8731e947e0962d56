import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { AbortReason } from "@bowline/domain/plan/AbortReason"
import { isSettled } from "@bowline/domain/plan/Plan"
import type { PlanId } from "@bowline/domain/plan/PlanId"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import {
  type HopsExceeded,
  type IdempotencyConflict,
  InvalidRequest,
  NotAccepting,
  type SessionBusy
} from "@bowline/domain/plan/Refusal"
import { StorageError } from "@bowline/domain/storage/StorageError"
import {
  Cause,
  Clock,
  Context,
  Deferred,
  Effect,
  Exit,
  Fiber,
  FiberMap,
  FiberSet,
  Latch,
  Layer,
  Option,
  Schedule
} from "effect"
import { UuidGenerator } from "../id/UuidGenerator.ts"
import { EnvironmentSecrets } from "../peer/EnvironmentSecrets.ts"
import { GatewayId } from "../peer/GatewayId.ts"
import type { Route } from "../peer/PeerClient.ts"
import { answered, patiently } from "../session/Patience.ts"
import { SessionLock } from "../session/SessionLock.ts"
import { toFrame } from "../stream/EventRow.ts"
import { GroupCommit } from "../stream/GroupCommit.ts"
import { Journal } from "../stream/Journal.ts"
import { LivePlan } from "../stream/LivePlan.ts"
import { Notices, pollAfter } from "../stream/Notices.ts"
import * as RemoteReaders from "../stream/RemoteReaders.ts"
import * as GenAi from "../telemetry/GenAi.ts"
import { LocalTools } from "../tool/LocalTools.ts"
import * as Admission from "./Admission.ts"
import * as Hops from "./Hops.ts"
import type { Idempotency, PlanExists } from "./Idempotency.ts"
import { newPlan } from "./NewPlan.ts"
import { Planner } from "./Planner.ts"
import { PlanRun } from "./PlanRun.ts"
import { PlansConfig } from "./PlansConfig.ts"
import { type NewPlan, PlanStore } from "./PlanStore.ts"
import { supervise } from "./PlanSupervisor.ts"

/** A plan asks so many models at most. */
const maxModels = 3

/** Plans that may wait for one session. */
const maxQueue = 32

/** After this time a plan is there that was asked to end before it was. */
const startPoll = 250

/** How long plans that were told to end may hold up the end of the process. */
const shutdownTimeout = "15 seconds"

/** How long a plan is kept for a caller who was not told that it is there. */
const comeBackWithin = "60 seconds"

interface Times {
  readonly createdAt: number
  readonly deadline: number
}

/** Whether what was asked of the database may have happened all the same. */
const isLostAnswer = (cause: Cause.Cause<{ readonly _tag: string } | StorageError>): boolean => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  return error instanceof StorageError && error.reason.isRetryable
}

/** Who asked for a plan has left before it was there: it is born without a reader. */
const leave = (start: Fiber.Fiber<RunningPlan, unknown>) =>
  Effect.flatMap(Fiber.await(start), (exit) =>
    Exit.isSuccess(exit) ? Effect.scoped(exit.value.live.attach) : Effect.void
  )

/** A plan in this process, from its creation until its session is given back. */
export interface RunningPlan {
  readonly run: PlanRun
  readonly live: LivePlan
}

/** The plans of this process, and the fibers that run them. */
export class RunningPlans extends Context.Service<
  RunningPlans,
  {
    /**
     * `came` is the way on which the plan came to this gateway, `idempotency` the key that is to stand for it. Nobody comes between a plan and its first use: a caller who leaves before
     * is one who leaves it.
     */
    readonly start: <A, R>(
      caller: CallerName,
      request: PlanRequest,
      came: Route,
      idempotency: Idempotency | undefined,
      use: (plan: RunningPlan) => Effect.Effect<A, never, R>
    ) => Effect.Effect<
      A,
      InvalidRequest | HopsExceeded | SessionBusy | NotAccepting | IdempotencyConflict | PlanExists | StorageError,
      R
    >
    readonly find: (id: PlanId) => RunningPlan | undefined
    /** The same; a plan that this process is about to run, and that may be stored already, is waited for. */
    readonly awaitStart: (id: PlanId) => Effect.Effect<RunningPlan | undefined>
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
      const gateway = yield* GatewayId
      const notices = yield* Notices
      const localTools = (yield* LocalTools).map(({ name }) => name)
      const uuid = yield* UuidGenerator
      const fibers = yield* FiberMap.make<PlanId, void>()
      const starts = yield* FiberSet.make()
      const plans = new Map<PlanId, RunningPlan>()
      /** Plans that are being stored, and are not run yet. */
      const creations = new Map<PlanId, Latch.Latch>()
      /** Requests that are admitted, and are no plans yet. */
      let starting = 0
      let draining = false
      /** Why every plan ends, once that is so. */
      let ending: AbortReason | undefined

      yield* RemoteReaders.serve((id) => plans.get(id)?.live)

      const idle = Latch.makeUnsafe(true)
      const count = (change: () => void) =>
        Effect.sync(() => {
          change()
          if (plans.size === 0 && starting === 0) idle.openUnsafe()
          else idle.closeUnsafe()
        })
      const abortAll = Effect.suspend(() => {
        ending = "shutdown"
        for (const { run } of plans.values()) run.abort(ending)
        return Effect.timeoutOption(idle.await, shutdownTimeout)
      })
      yield* Effect.addFinalizer(() => abortAll)

      /** Whether somebody has asked for an end, and is to be looked for. */
      const asked = Latch.makeUnsafe(true)
      yield* notices.subscribe(({ _tag }) => {
        if (_tag === "AbortRequested" || _tag === "ListeningChanged") asked.openUnsafe()
      })
      const listen = Effect.gen(function* () {
        asked.closeUnsafe()
        const requests = plans.size + starting === 0 ? [] : yield* store.abortRequests(lock.replica)
        for (const { plan_id, reason } of requests) plans.get(plan_id)?.run.abort(reason)
        return requests.some(({ plan_id }) => !plans.has(plan_id)) ? startPoll : pollAfter(notices)
      }).pipe(
        Effect.catchCause((cause) => Effect.as(Effect.logWarning("abort_requests_failed", cause), startPoll)),
        Effect.flatMap((wait) => Effect.timeoutOption(asked.await, wait)),
        Effect.forever
      )
      if (store.isShared) yield* Effect.forkScoped(listen)

      const admit = (request: PlanRequest, came: Route) =>
        Effect.suspend((): Effect.Effect<void, NotAccepting | InvalidRequest | HopsExceeded> => {
          if (draining) return Effect.fail(new NotAccepting({ code: "draining" }))
          const issues = Admission.check(request, {
            allowsModel: config.allowsModel,
            allowsVariable: secrets.isAllowed,
            localTools
          })
          if (issues.length > 0) return Effect.fail(new InvalidRequest({ issues }))
          const tooFar = Hops.refusal(came, gateway, request.preferences.max_hops)
          if (tooFar !== undefined) return Effect.fail(tooFar)
          if (plans.size + starting >= config.maxPlans) return Effect.fail(new NotAccepting({ code: "unavailable" }))
          return count(() => starting++)
        })

      /** Ends the older plans of the session, wherever they run. */
      const supersede = Effect.fnUntraced(function* (caller: CallerName, { plan_id, session_id }: PlanRun["given"]) {
        const { items } = yield* store.list(caller, { session: session_id }, { limit: 200 })
        const own = items.findIndex((plan) => plan.plan_id === plan_id)
        for (const older of own === -1 ? [] : items.slice(own + 1)) {
          if (isSettled(older)) continue
          plans.get(older.plan_id)?.run.abort("superseded")
          yield* store.requestAbort(older.plan_id, "superseded")
        }
      })

      const launch = Effect.fnUntraced(function* (
        caller: CallerName,
        request: PlanRequest,
        plan: NewPlan,
        session: Effect.Success<ReturnType<PlanStore["Service"]["create"]>>,
        times: Times
      ) {
        const { plan_id, model, route } = plan
        const models = [model, ...config.fallbackModels.filter((other) => other !== model)].slice(0, maxModels)
        const ids = { plan_id, session_id: session.session_id }
        const started = Deferred.makeUnsafe<RunningPlan>()
        const life = Effect.gen(function* () {
          const live = new LivePlan(
            yield* Effect.scope,
            Effect.sync(() => {
              if (request.preferences.on_disconnect === "cancel") run.abort("disconnect")
            }),
            config.streamGrace
          )
          const guard = { _tag: "Queued", replica: lock.replica, fence: 0 } as const
          const journal = new Journal(ids, guard, 1, live, writer.notify)
          const run: PlanRun = new PlanRun({ ...ids, ...times, caller, request, models, route, journal, uuid })
          const { external_session_id, created } = session
          const first = { event: "session", data: { external_session_id, created } } as const
          live.publish([toFrame(1, first)], times.createdAt)
          const running: RunningPlan = { run, live }
          yield* count(() => plans.set(plan_id, running))
          if (ending !== undefined) run.abort(ending)
          yield* Deferred.succeed(started, running)
          yield* Effect.ensuring(
            supervise(run, live, lock, planner),
            Effect.sync(() => live.close("reconnect"))
          )
        }).pipe(
          Effect.scoped,
          Effect.ensuring(count(() => plans.delete(plan_id))),
          Effect.annotateLogs({ ...ids, caller })
        )
        const attributes = { [GenAi.plan]: plan_id, [GenAi.conversation]: session.session_id }
        yield* FiberMap.run(fibers, plan_id, Effect.withSpan(life, "plan", { attributes, captureStackTrace: false }))
        return yield* Deferred.await(started)
      })

      /** Runs a plan that was stored though the answer was lost: who asked may come back, with its key, as a reader who was cut off may. */
      const adopt = Effect.fnUntraced(
        function* (caller: CallerName, request: PlanRequest, plan: NewPlan, times: Times) {
          const stored = yield* Effect.retry(store.get(caller, plan.plan_id), {
            while: (error) => error._tag === "StorageError" && error.reason.isRetryable,
            schedule: Schedule.spaced("500 millis")
          })
          if (isSettled(stored)) return
          const { session_id, external_session_id } = stored
          const session = { session_id, external_session_id, created: session_id === plan.new_session_id }
          const { live } = yield* launch(caller, request, plan, session, times)
          const unread = Effect.andThen(
            live.watch(() => undefined),
            Effect.sleep(comeBackWithin)
          )
          yield* FiberSet.run(starts, Effect.scoped(unread))
        },
        (adopting) => Effect.ignore(adopting)
      )

      const start = Effect.fnUntraced(
        function* (caller: CallerName, request: PlanRequest, came: Route, idempotency: Idempotency | undefined) {
          const createdAt = yield* Clock.currentTimeMillis
          const deadline = createdAt + request.preferences.timeout_ms
          const plan = newPlan(request, {
            owner: caller,
            model: request.preferences.model ?? config.model,
            route: Hops.onward(came, gateway),
            replica: lock.replica,
            idempotency,
            createdAt,
            deadline,
            uuid
          })
          const created = Latch.makeUnsafe(false)
          creations.set(plan.plan_id, created)
          const decided = Effect.sync(() => {
            creations.delete(plan.plan_id)
            created.openUnsafe()
          })
          const times = { createdAt, deadline }
          const session = yield* answered(store.create(plan, maxQueue)).pipe(
            Effect.onError((cause) =>
              isLostAnswer(cause)
                ? FiberSet.run(starts, Effect.ensuring(adopt(caller, request, plan, times), decided))
                : decided
            )
          )
          const running = yield* Effect.ensuring(launch(caller, request, plan, session, times), decided)
          if (request.preferences.on_busy === "interrupt" && !session.created) {
            // The plan is there, and so is its key: it is not refused any more, at worst it waits for the older ones.
            yield* patiently(supersede(caller, running.run.given)).pipe(
              Effect.catch(({ reason }) => Effect.logError("supersede_failed", reason.cause))
            )
          }
          return running
        },
        Effect.ensuring(count(() => starting--))
      )

      return {
        find: (id) => plans.get(id),
        awaitStart: (id) =>
          Effect.suspend(() => creations.get(id)?.await ?? Effect.void).pipe(Effect.map(() => plans.get(id))),
        isDraining: () => draining,
        drain: Effect.suspend(() => {
          draining = true
          return Effect.timeoutOrElse(idle.await, { duration: config.shutdownGrace, orElse: () => abortAll })
        }).pipe(Effect.asVoid),
        start: (caller, request, came, idempotency, use) =>
          Effect.uninterruptibleMask((restore) =>
            Effect.gen(function* () {
              yield* admit(request, came)
              const fiber = yield* FiberSet.run(starts, start(caller, request, came, idempotency))
              const plan = yield* restore(Fiber.join(fiber)).pipe(
                Effect.onInterrupt(() => FiberSet.run(starts, leave(fiber)))
              )
              return yield* use(plan)
            })
          )
      }
    })
  )
}
