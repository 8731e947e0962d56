import type { AbortReason } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { ResolvedRequest } from "@bowline/domain/plan/PlanRequest"
import { NotAccepting } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Context, Deferred, Duration, Effect, FiberSet, Layer, Schedule, type Scope, Semaphore } from "effect"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import * as EndedPlans from "./EndedPlans.ts"
import * as Parking from "./Parking.ts"
import * as LeftTasks from "./LeftTasks.ts"
import { PeerClient } from "../remote/PeerClient.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import { GroupCommit } from "../stream/GroupCommit.ts"
import * as AbortRequests from "./AbortRequests.ts"
import * as Keeper from "./Keeper.ts"
import { Journal, StoresEach } from "../stream/Journal.ts"
import { LivePlan } from "../stream/LivePlan.ts"
import * as RemoteReaders from "../stream/RemoteReaders.ts"
import * as PlanSpan from "../telemetry/PlanSpan.ts"
import { observe } from "../telemetry/Instrument.ts"
import * as PlanMetrics from "../telemetry/PlanMetrics.ts"
import { Inboxes } from "../planner/Inboxes.ts"
import { Planner } from "../planner/Planner.ts"
import { PlanRun } from "../planner/PlanRun.ts"
import { Permissions } from "../config/Permissions.ts"
import { takersOf } from "../asking/SentFiles.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import { agentsOf } from "../config/Presets.ts"
import { emptyInbox, InboxStore, type StoredText } from "../store/InboxStore.ts"
import type { PlanStart } from "../store/PlanStart.ts"
import { PlanStore } from "../store/PlanStore.ts"
import { SessionStore } from "../store/SessionStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import * as UnreadPlans from "./UnreadPlans.ts"
import { supervise } from "./PlanSupervisor.ts"
import { continuing, maxMoves, type Ready } from "./StoredPlan.ts"
import { SecretKey } from "../store/SecretKey.ts"
import * as StoredRequest from "../store/StoredRequest.ts"

/** How many models a plan may ask. */
const maxModels = 3

/** How long plans that were aborted or handed over may delay the end of the process. */
const shutdownTimeout = "15 seconds"

/** How long the readers of a plan that is parked may take to read on from the store. */
const readOnWithin = "10 seconds"

const endReadWithin = "300 millis"
const freed = Schedule.spaced("100 millis")
/** After a hand-over another process forgets. */
const forgetWithin = "30 seconds"

/** A plan in this process, from its creation until its session is released. */
export interface RunningPlan {
  readonly run: PlanRun
  readonly live: LivePlan
}

/** The plans of this process, and the fibers that run them. */
export class RunningPlans extends Context.Service<
  RunningPlans,
  {
    /**
     * Runs the plan in a fiber of its own, and in its place if one was reserved. If the process has lost the plan and got it back, it begins
     * when the older fiber has ended.
     */
    readonly run: (plan: Ready, place?: Keeper.Place) => Effect.Effect<RunningPlan>
    readonly find: (id: PlanId) => RunningPlan | undefined
    /** The plans that wait here for their session, whether another process has taken them over or not. */
    readonly queued: () => ReadonlyArray<RunningPlan>
    /**
     * Keeps a place free for one more plan until it runs, or the scope closes. There are as many places as this replica may run plans.
     * A drain waits for places, too.
     */
    readonly reserve: Effect.Effect<Keeper.Place, NotAccepting, Scope.Scope>
    /** Has a drain wait until the scope closes: plans of other replicas may come, which need no place. */
    readonly delayDrain: Effect.Effect<void, NotAccepting, Scope.Scope>
    /** How many more plans this replica may run. */
    readonly room: () => number
    /**
     * Refuses new plans, and lets plans run on for the grace. Then it hands over those that another process can resume, and aborts
     * the rest. Those that only wait, for a session or for approvals, are handed over within a second: they would wait on elsewhere.
     */
    readonly drain: Effect.Effect<void>
    readonly isDraining: () => boolean
  }
>()("@bowline/runtime/plan/RunningPlans") {
  static readonly layer = Layer.effect(
    RunningPlans,
    Effect.gen(function* () {
      const config = yield* PlansConfig
      const lock = yield* SessionLock
      const keeper = yield* makeKeeper
      const starts = yield* FiberSet.make()
      const life = yield* makeLife((next) => FiberSet.run(starts, run(next)))
      for (const state of ["queued", "running"] as const) {
        yield* observe(PlanMetrics.plans.of({ state }), () => countOf(keeper.values(), state))
      }
      const readers = yield* RemoteReaders.serve((id) => keeper.find(id)?.live)
      const readAbortRequests = yield* AbortRequests.listen(lock.replica, {
        isIdle: keeper.isIdle,
        isStarting: keeper.isExpecting,
        abort: (id, reason) => {
          const plan = keeper.find(id)
          plan?.run.abort(reason)
          return plan !== undefined
        }
      })

      const run: RunningPlans["Service"]["run"] = (plan, place) => {
        const { plan_id, session_id, caller } = plan
        const begin: Parameters<typeof keeper.run>[1] = (announce) => {
          // An abort of a plan that comes from elsewhere may have been requested while no replica ran it.
          const announceHere = (running: RunningPlan) =>
            plan.awaited === undefined
              ? announce(running)
              : Effect.andThen(announce(running), Effect.sync(readAbortRequests))
          const lived =
            plan.awaited === undefined
              ? life(plan, announceHere)
              : Effect.ensuring(
                  life(plan, announceHere),
                  Effect.sync(() => readers.ended(plan_id))
                )
          const annotated = Effect.annotateLogs(lived, { plan_id, session_id, caller })
          return PlanSpan.ofPlan(plan)(annotated)
        }
        return keeper.run(plan_id, begin, place)
      }

      return {
        run,
        find: keeper.find,
        queued: () => Array.from(keeper.values()).filter(isQueued),
        room: keeper.room,
        reserve: Effect.mapError(keeper.reserve, toRefusal),
        delayDrain: Effect.mapError(keeper.delayDrain, toRefusal),
        isDraining: keeper.isDraining,
        drain: Effect.andThen(keeper.drain(config.shutdownGrace), lock.leave)
      }
    })
  )
}

const toRefusal = (refusal: "full" | "draining") =>
  new NotAccepting({ code: refusal === "full" ? "unavailable" : refusal })

/** One that ends, or is left, has written so with its last write. */
const isQueued = ({ run: { ending, given } }: RunningPlan): boolean =>
  given.journal.guard._tag === "Queued" && ending === undefined

const countOf = (plans: Iterable<RunningPlan>, state: "queued" | "running"): number => {
  let count = 0
  for (const { run } of plans) if ((run.stage === "queue") === (state === "queued")) count++
  return count
}

const makeKeeper = Effect.gen(function* () {
  const { maxPlans } = yield* PlansConfig
  return yield* Keeper.make<PlanId, RunningPlan>({
    capacity: maxPlans,
    end: ({ run }) => run.end("shutdown"),
    isWaiting: ({ run: { isResumable, stage } }) =>
      (stage === "approval" || stage === "client" || stage === "queue") && isResumable,
    replace: ({ run }) => run.given.journal.lose(),
    endWithin: shutdownTimeout,
    abandon: ({ live }) => live.close("reconnect")
  })
})

/** Gives a plan its journal and its stream, which live as long as the scope. */
const makeOpen = Effect.gen(function* () {
  const config = yield* PlansConfig
  const store = yield* PlanStore
  const lock = yield* SessionLock
  const writer = yield* GroupCommit
  const secretKey = yield* SecretKey
  const uuid = yield* UuidGenerator
  const measureCall = yield* PlanMetrics.measureCall

  const inboxes = yield* Inboxes
  const storesEach = yield* StoresEach

  return Effect.fnUntraced(function* (plan: Ready) {
    const scope = yield* Effect.scope
    const { session_id, guard, head, recent, gist, awaited: _, inbox: said, resumed, isEmpty, wokenBy, ...start } = plan
    const { plan_id, request } = start
    const { disconnect_grace_ms = config.streamGrace, on_disconnect } = request.preferences
    const onUnread = (isOutdated: boolean) => {
      if (on_disconnect === "cancel") run.abort(isOutdated ? "superseded" : "disconnect")
    }
    const live = new LivePlan(scope, onUnread, Duration.fromInputUnsafe(disconnect_grace_ms))
    live.head = head.seq
    live.publish(recent)
    const content = said ?? emptyInbox(plan_id)
    const journal = new Journal({
      plan: { plan_id, session_id },
      guard,
      head,
      gist,
      live,
      notify: writer.notify,
      onStopped: (why) => run.stop(why),
      seen: content.count,
      onBehind: () => inboxes.look(plan_id),
      storesEach
    })
    if (wokenBy != null) {
      const data = { because: wokenBy, deadline_at: fromMillis(start.deadline) }
      journal.append([{ _tag: "Woken" }], [{ event: "woken", data }])
    }
    const inbox = yield* inboxes.open(plan_id, journal, content)
    // It was read before: what has come since has told nobody.
    if (said !== undefined) inboxes.look(plan_id)
    const run: PlanRun = new PlanRun({
      ...start,
      session_id,
      models: modelsOf(start, config),
      resumed,
      isEmpty,
      journal,
      inbox,
      unread: request.legs === undefined ? (wait) => wait : (wait) => live.holdWhile(wait),
      uuid,
      measureCall,
      isOverdue: lock.isOverdue,
      isKept: () => config.resume && store.isDurable && StoredRequest.isWhole(request, secretKey)
    })
    return { run, live }
  })
})

/** The fiber of a plan: it announces the plan, so that `find` returns it, and runs it to its end. */
const makeLife = Effect.fnUntraced(function* (start: (next: Ready) => Effect.Effect<unknown>) {
  const lock = yield* SessionLock
  const planner = yield* Planner
  const peers = yield* PeerClient
  const permissions = yield* Permissions
  const open = yield* makeOpen
  const endings = Semaphore.makeUnsafe(1)
  const sessions = yield* SessionStore
  const background = yield* FiberSet.make()
  const inboxStore = yield* InboxStore
  const parts = {
    store: yield* PlanStore,
    config: yield* PlansConfig,
    secretKey: yield* SecretKey,
    lock,
    uuid: yield* UuidGenerator
  }

  const requestAbort = (id: PlanId, reason: AbortReason) =>
    Effect.ignore(retryWhileAway(parts.store.requestAbort(id, reason)), { log: "Warn", message: "storage_failed" })
  const endUnread = yield* UnreadPlans.make
  const seal = yield* EndedPlans.make
  const parking = {
    after: parts.config.resume && parts.store.isDurable ? parts.config.parkAfter : undefined,
    mayPark: ({ given, inbox }: PlanRun, { isRead, runsOn }: LivePlan): boolean | Parking.Obstacle => {
      if (!given.isKept()) return { why: "a secret is not stored", isForGood: true }
      if (inbox.waits.some(({ isHeld }) => isHeld))
        return { why: "a server that asks waits for the answer at its connection", isForGood: false }
      return lock.duties().mayPark && (isRead || runsOn || given.request.preferences.on_disconnect === "continue")
    }
  }

  /**
   * Deletes a session that is kept for its plan alone. Readers that are about to read the end have this long. A sweep deletes what is missed here, and what
   * waits for a webhook that does not answer.
   */
  const forget = ({ live, run }: RunningPlan, session: SessionId) =>
    Deferred.await(live.closed).pipe(
      Effect.andThen(Effect.sleep(endReadWithin)),
      Effect.andThen(
        Effect.suspend(() =>
          run.elsewhere !== undefined
            ? Effect.void
            : Effect.retry(
                Effect.repeat(sessions.delete(session, "telling"), {
                  until: (isDeleted) => isDeleted,
                  schedule: freed
                }),
                freed
              )
        )
      ),
      Effect.timeoutOption(forgetWithin),
      Effect.ignore
    )

  return Effect.fnUntraced(function* (plan: Ready, announce: (plan: RunningPlan) => Effect.Effect<void>) {
    const { caller, session_id, guard, awaited, route } = plan
    const running = yield* open(plan)
    const { run, live } = running
    if (guard._tag === "Held") yield* lock.adopt(session_id, guard.fence, () => run.given.journal.loseLease())
    if (awaited !== undefined) {
      yield* Effect.forkScoped(live.awaitReader(awaited), { startImmediately: true })
    }
    if (plan.request.session_ttl_ms === 0) yield* FiberSet.run(background, forget(running, session_id))
    yield* announce(running)
    let following: Ready | undefined
    const next = Effect.fnUntraced(function* (run: PlanRun, texts: ReadonlyArray<StoredText>) {
      following = undefined
      // Its session is deleted with the plan.
      if (texts.length === 0 || plan.request.session_ttl_ms === 0) return undefined
      const moves = yield* Effect.orElseSucceed(retryWhileAway(inboxStore.movesTo(run.given.plan_id)), () => maxMoves)
      if (moves >= maxMoves) return undefined
      const { ready, ...stored } = yield* continuing(parts, run, texts)
      following = ready
      return stored
    })
    yield* Effect.ensuring(
      supervise(run, live, { lock, planner, endings, next, parking, requestAbort }),
      Effect.sync(() => live.close("reconnect"))
    )
    if (run.ending?._tag === "Parked") {
      seal(run.given.plan_id)
      yield* endUnread(run.given.plan_id, readOnWithin)
    }
    if (run.elsewhere === undefined && following !== undefined) yield* start(following)
    if (run.elsewhere === undefined) {
      seal(run.given.plan_id)
      const permission = permissions.forCaller(caller, plan.request.asker?.groups)
      yield* LeftTasks.cancelAll(peers, { agents: agentsOf(plan), caller, route, permission }, run.tasks.abandoned)
    }
  }, Effect.scoped)
})

/** The models that a plan with this request may ask, the first one in front. */
export const chainOf = ({ preferences }: ResolvedRequest, config: PlansConfig["Service"]): ReadonlyArray<string> => {
  const first = preferences.model ?? config.model
  return [first, ...config.fallbackModels.filter((other) => other !== first)].slice(0, maxModels)
}

/** Those of the plan that take its files. A resumed one leaves out the models that have failed already. */
const modelsOf = ({ request, model }: PlanStart, config: PlansConfig["Service"]): ReadonlyArray<string> => {
  const chain = chainOf(request, config)
  const left = chain.includes(model) ? chain.slice(chain.indexOf(model)) : [model]
  return takersOf(config, left, request.question_parts)
}
