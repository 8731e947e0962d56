import type { PlanId } from "@bowline/domain/plan/Plan"
import { NotAccepting } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import { Context, Deferred, type Duration, Effect, Fiber, FiberMap, Latch, Layer, Option, type Scope } from "effect"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import * as LeftTasks from "./LeftTasks.ts"
import { PeerClient } from "../peer/PeerClient.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import type { PlanFrame } from "../store/EventRow.ts"
import { GroupCommit } from "../stream/GroupCommit.ts"
import { Journal } from "../stream/Journal.ts"
import { LivePlan } from "../stream/LivePlan.ts"
import { Notices, pollAfter } from "../store/Notices.ts"
import * as RemoteReaders from "../stream/RemoteReaders.ts"
import * as GenAi from "../telemetry/GenAi.ts"
import { Planner } from "../planner/Planner.ts"
import { PlanRun } from "../planner/PlanRun.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import type { PlanStart } from "../store/PlanStart.ts"
import { type Guard, PlanStore } from "../store/PlanStore.ts"
import { supervise } from "./PlanSupervisor.ts"
import type { Resumed } from "../planner/Resumption.ts"
import { SecretKey } from "../store/SecretKey.ts"
import * as StoredRequest from "../store/StoredRequest.ts"

/** A plan asks so many models at most. */
const maxModels = 3

/** After this time a plan is there that was asked to end before it was. */
const startPoll = 250

/** How long plans that were told to end may hold up the end of the process. */
const shutdownTimeout = "15 seconds"

/** A plan in this process, from its creation until its session is given back. */
export interface RunningPlan {
  readonly run: PlanRun
  readonly live: LivePlan
}

/** A plan that is stored and that nobody runs. */
export interface Ready extends PlanStart {
  readonly session_id: SessionId
  /** What its next write is guarded by. Where it is `Held`, the session's lease came with the plan. */
  readonly guard: Guard
  /** The seq of its last event, and those of the last ones that need not be read from the store. */
  readonly head: number
  readonly recent: ReadonlyArray<PlanFrame>
  readonly resumed: Resumed | undefined
  /** How long somebody may be on the way who reads it: nobody who reads it now knows that it is here. */
  readonly awaited: Duration.Input | undefined
}

/** The plans of this process, and the fibers that run them. */
export class RunningPlans extends Context.Service<
  RunningPlans,
  {
    /** Runs the plan in a fiber of its own. One that this process has lost and that came back begins when nothing of it is left. */
    readonly run: (plan: Ready) => Effect.Effect<RunningPlan>
    readonly find: (id: PlanId) => RunningPlan | undefined
    /**
     * A place for one more plan until the scope closes: by then it runs, and has one as long as it does. There are as many as this
     * replica may run, and so many `more`; meanwhile it is not idle.
     */
    readonly reserve: (more?: number) => Effect.Effect<void, NotAccepting, Scope.Scope>
    /** How many more plans this replica may run. */
    readonly room: () => number
    /**
     * Refuses new plans, and lets those that run go on for the grace. Then those that another process can go on with are left to it,
     * and the rest is aborted.
     */
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
      const notices = yield* Notices
      const peers = yield* PeerClient
      const secretKey = yield* SecretKey
      const uuid = yield* UuidGenerator
      const fibers = yield* FiberMap.make<PlanId, void>()
      const plans = new Map<PlanId, RunningPlan>()
      /** Requests that are admitted, and are no plans yet. */
      let starting = 0
      let draining = false
      /** Whether every plan ends here. */
      let ending = false

      const room = () => config.maxPlans - plans.size - starting

      yield* RemoteReaders.serve((id) => plans.get(id)?.live)

      const idle = Latch.makeUnsafe(true)
      const count = (change: () => void) =>
        Effect.sync(() => {
          change()
          if (plans.size === 0 && starting === 0) idle.openUnsafe()
          else idle.closeUnsafe()
        })
      const sendAway = Effect.sync(() => {
        for (const { live } of plans.values()) live.close("reconnect")
      })
      const endAll = Effect.suspend(() => {
        // They have had their time.
        if (ending) return Effect.void
        ending = true
        for (const { run } of plans.values()) run.end("shutdown")
        return Effect.timeoutOrElse(idle.await, { duration: shutdownTimeout, orElse: () => sendAway })
      })
      yield* Effect.addFinalizer(() => endAll)

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
      yield* Effect.forkScoped(listen)

      const life = Effect.fnUntraced(function* (plan: Ready, started: Deferred.Deferred<RunningPlan>) {
        const { session_id, guard, head, recent, awaited, resumed, ...start } = plan
        const { plan_id, request, model } = start
        const live = new LivePlan(
          yield* Effect.scope,
          Effect.sync(() => {
            if (request.preferences.on_disconnect === "cancel") run.abort("disconnect")
          }),
          config.streamGrace
        )
        const journal = new Journal({ plan_id, session_id }, guard, head, live, writer.notify)
        const first = request.preferences.model ?? config.model
        const chain = [first, ...config.fallbackModels.filter((other) => other !== first)].slice(0, maxModels)
        // One that is gone on with may have given the first ones up.
        const models = chain.includes(model) ? chain.slice(chain.indexOf(model)) : [model]
        const run: PlanRun = new PlanRun({
          ...start,
          session_id,
          models,
          resumed,
          journal,
          uuid,
          isOverdue: lock.isOverdue,
          isKept: () => config.resume && store.isDurable && StoredRequest.isWhole(request, secretKey)
        })
        live.head = head
        live.publish(recent, start.createdAt)
        const running: RunningPlan = { run, live }
        if (guard._tag === "Held") yield* lock.adopt(session_id, guard.fence, () => journal.lose())
        if (awaited !== undefined) {
          yield* Effect.forkScoped(live.awaitReader(awaited), { startImmediately: true })
        }
        yield* count(() => plans.set(plan_id, running))
        if (ending) run.end("shutdown")
        // Somebody may have asked for its end while nobody ran it.
        if (awaited !== undefined) asked.openUnsafe()
        yield* Deferred.succeed(started, running)
        yield* Effect.ensuring(
          supervise(run, live, lock, planner),
          Effect.sync(() => live.close("reconnect"))
        )
        if (run.elsewhere === undefined)
          yield* LeftTasks.cancelAll(peers, request.agents, start.route, run.tasks.abandoned)
      }, Effect.scoped)

      return {
        run: Effect.fnUntraced(function* (plan) {
          const { plan_id, session_id, caller } = plan
          const lost = plans.get(plan_id)
          if (lost !== undefined) {
            lost.run.given.journal.lose()
            const fiber = yield* FiberMap.get(fibers, plan_id)
            if (Option.isSome(fiber)) yield* Fiber.await(fiber.value)
          }
          const started = Deferred.makeUnsafe<RunningPlan>()
          const attributes = { [GenAi.plan]: plan_id, [GenAi.conversation]: session_id }
          const running = life(plan, started).pipe(
            Effect.ensuring(count(() => plans.delete(plan_id))),
            Effect.annotateLogs({ plan_id, session_id, caller })
          )
          yield* FiberMap.run(
            fibers,
            plan_id,
            Effect.withSpan(running, "plan", { attributes, captureStackTrace: false })
          )
          return yield* Deferred.await(started)
        }),
        find: (id) => plans.get(id),
        room,
        reserve: (more = 0) =>
          Effect.asVoid(
            Effect.acquireRelease(
              Effect.suspend(() => {
                if (draining) return Effect.fail(new NotAccepting({ code: "draining" }))
                if (room() + more <= 0) return Effect.fail(new NotAccepting({ code: "unavailable" }))
                return count(() => starting++)
              }),
              () => count(() => starting--)
            )
          ),
        isDraining: () => draining,
        drain: Effect.suspend(() => {
          draining = true
          return Effect.timeoutOrElse(idle.await, { duration: config.shutdownGrace, orElse: () => endAll })
        }).pipe(Effect.andThen(lock.leave))
      }
    })
  )
}
