import { addCost } from "@bowline/domain/plan/Usage"
import { type PlanRequest, resolve } from "@bowline/domain/plan/PlanRequest"
import { Duration, Effect, Latch, Layer, Option, Result } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import { Permissions } from "../config/Permissions.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import * as Presets from "../config/Presets.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import * as Resumption from "../planner/Resumption.ts"
import { Notices } from "../store/Notices.ts"
import * as PlanGist from "../store/PlanGist.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import { toEvent } from "../store/EventRow.ts"
import { type AbandonedPlan, framesBehind, PlanStore } from "../store/PlanStore.ts"
import { SecretKey } from "../store/SecretKey.ts"
import * as StoredRequest from "../store/StoredRequest.ts"
import * as TraceContext from "../telemetry/TraceContext.ts"
import { LocalTools } from "../tool/LocalTools.ts"
import * as UnreadPlans from "./UnreadPlans.ts"
import { supersede } from "./Cancellation.ts"
import { Endings } from "./Endings.ts"
import { NewPlans } from "./NewPlans.ts"
import { RunningPlans } from "./RunningPlans.ts"

/** How many plans are taken over at least, even beyond the capacity of this replica: some replica has to end them. */
const leastTaken = 100

/** How many ends are written side by side. */
const concurrency = 8

/** Logs why the work on one abandoned plan has failed, so that the work on the others continues. */
const logFailure = <E>(
  { owner: caller, plan, route }: AbandonedPlan,
  work: Effect.Effect<void, E>
): Effect.Effect<void> => {
  const { plan_id, session_id } = plan
  const { request_id } = route
  return work.pipe(
    Effect.catchCause((cause) => Effect.logError("recovery_failed", cause)),
    Effect.annotateLogs({ ...(request_id !== undefined && { request_id }), plan_id, session_id, caller })
  )
}

/** Runs a plan here that another process has begun. */
const makeResume = Effect.gen(function* () {
  const store = yield* PlanStore
  const running = yield* RunningPlans
  const notices = yield* Notices
  const { takeoverGrace } = yield* PlansConfig

  /** A plan of which some price is not known has the rest of its cost in its events. Only a limit has to know it: it counts as used up where nobody can read them. */
  const knownCost = Effect.fnUntraced(
    function* ({ plan: { cost_usd, plan_id }, preferences }: AbandonedPlan) {
      if (cost_usd !== null || preferences.max_cost_usd === undefined) return cost_usd ?? 0
      let sum = 0
      for (let after = 0; ;) {
        const frames = yield* retryWhileAway(framesBehind(store, plan_id, after))
        const last = frames.at(-1)
        if (last === undefined) return addCost(0, sum) ?? 0
        for (const { data, event } of frames.map(toEvent)) if (event === "usage") sum += data.cost_usd ?? 0
        after = last.seq
      }
    },
    Effect.orElseSucceed(() => Infinity)
  )

  return Effect.fnUntraced(function* (abandoned: AbandonedPlan, asked: PlanRequest, preset: Presets.Preset) {
    const { plan, owner: caller, guard, leftMs, preferences, route, wokenBy } = abandoned
    // Those that its request and its preset gave when it was created.
    const request = resolve({ ...asked, preferences }, preset.preferences)
    const { plan_id, session_id, model } = plan
    const resumed = running.run({
      plan_id,
      session_id,
      caller,
      request,
      preset,
      model,
      cost_usd: plan.cost_usd,
      route,
      guard,
      createdAt: Date.parse(plan.created_at),
      deadline: Date.parse(plan.deadline_at ?? plan.created_at),
      endsAt: (yield* Monotonic.now) + leftMs,
      head: Resumption.headOf(abandoned),
      recent: [],
      gist: yield* PlanGist.resume(store, abandoned),
      inbox: abandoned.inbox,
      wokenBy: wokenBy ?? undefined,
      isEmpty: false,
      resumed:
        guard._tag === "Held" ? { ...Resumption.read(abandoned), knownCost: yield* knownCost(abandoned) } : undefined,
      awaited: Duration.max(takeoverGrace, Duration.millis(request.preferences.disconnect_grace_ms ?? 0))
    })
    yield* TraceContext.continued(route.trace ?? {})(resumed)
    // Its process may have died before it ended the older plans.
    if (guard._tag === "Queued" && request.preferences.on_busy === "interrupt") {
      yield* supersede(running, store, caller, plan)
    }
    yield* Effect.logInfo(guard._tag === "Held" ? "plan_resumed" : "plan_queued_again")
    yield* Effect.ignore(notices.publish([{ _tag: "TakenOver", plan_id }]))
  })
})

/** Takes plans over that nobody runs. Resumes those that can be resumed, and begins the ends of the others. */
const makeTakeOver = Effect.fnUntraced(function* (endings: Endings) {
  const store = yield* PlanStore
  const lock = yield* SessionLock
  const running = yield* RunningPlans
  const plans = yield* NewPlans
  const secretKey = yield* SecretKey
  const localTools = yield* LocalTools
  const { leaseTtl, resume } = yield* PlansConfig
  const permissions = yield* Permissions
  const presets = yield* Presets.Presets
  const resumePlan = yield* makeResume

  const decide = Effect.fnUntraced(function* (abandoned: AbandonedPlan) {
    const restored =
      abandoned.request === null
        ? Result.fail("request" as const)
        : StoredRequest.restore(abandoned.request, abandoned.plan.plan_id, secretKey)
    const request = Option.getOrUndefined(Result.getSuccess(restored))
    // Its secrets are in no store: they are those of this process's configuration.
    const preset =
      request && Presets.find(presets, permissions.forCaller(abandoned.owner, request.asker?.groups), request.preset)
    const obstacle = Resumption.obstacle(abandoned, restored, { resume, localTools, preset })
    if (obstacle === undefined && request && preset) return yield* resumePlan(abandoned, request, preset)
    yield* endings.begin(abandoned)
    yield* Effect.annotateLogs(Effect.logWarning("plan_interrupted"), { reason: obstacle })
  })

  return Effect.fnUntraced(
    function* (isThorough: boolean) {
      // A drain waits for plans that are being taken over, too.
      yield* running.delayDrain
      yield* lock.expectLeases
      const limit = Math.max(running.room(), leastTaken)
      const waiting = running.queued()
      const { isAny, queued } = yield* store.abandoned(lock.replica, isThorough)
      // Another replica has taken over a plan that is not queued for this one any more, while this process was away. No lease tells of that, and
      // readers here do not count there.
      const lost = new Set(running.queued()).intersection(new Set(waiting))
      for (const { run } of lost) if (!queued.includes(run.given.plan_id)) run.given.journal.loseLease()
      // This replica's own plans that were stored after it had stopped waiting for the answer.
      const forgotten = queued.filter((id) => !plans.isKnown(id) && !endings.has(id))
      if (!isAny && forgotten.length === 0) return
      const places = Math.max(running.room(), 0)
      const taken = yield* store.takeOver(lock.replica, leaseTtl, limit, forgotten, places, isThorough)
      yield* Effect.forEach(taken, (abandoned) => logFailure(abandoned, decide(abandoned)), {
        concurrency: "unbounded",
        discard: true
      })
    },
    Effect.scoped,
    Effect.catchTag("NotAccepting", () => Effect.void)
  )
})

/** How often the oldest replica looks at all open plans, in milliseconds; each one does so at its start. */
const thoroughEvery = 60_000

/** How often a process looks whether a plan is parked still. */
const lookEvery = Duration.seconds(5)

/** Ends the parked plans whose last readers were of a process that has died, if none of them comes back within the grace. */
const makeEndLeft = Effect.gen(function* () {
  const store = yield* PlanStore
  const endUnread = yield* UnreadPlans.make
  const { takeoverGrace } = yield* PlansConfig
  const parked = retryWhileAway(store.needingReaders)
  return Effect.fnUntraced(
    function* () {
      const until = (yield* Monotonic.now) + Duration.toMillis(takeoverGrace)
      let left = yield* parked
      while (left.length > 0 && (yield* Monotonic.now) < until) {
        yield* Effect.sleep(lookEvery)
        const still = new Set(yield* parked)
        left = left.filter((id) => still.has(id))
      }
      yield* Effect.forEach(left, (id) => endUnread(id, 0), { discard: true })
    },
    Effect.ignore({ log: "Warn", message: "storage_failed" })
  )
})

/**
 * Takes over plans that nobody runs, and resumes or settles them: at the start, when another replica leaves, and otherwise every
 * third of a lease, at most every 3 s. At the start, and on the oldest replica when another one is gone, it also looks which parked plans still have the
 * readers that they need.
 */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const lock = yield* SessionLock
    const notices = yield* Notices
    const { leaseTtl } = yield* PlansConfig
    const endLeft = yield* makeEndLeft
    const endings = yield* Endings.make
    const takeOver = yield* makeTakeOver(endings)

    let lookedAtAll = -Infinity
    const takeDue = Effect.gen(function* () {
      const now = yield* Monotonic.now
      const isThorough = now - lookedAtAll >= (lock.duties().isOldest ? thoroughEvery : Infinity)
      yield* takeOver(isThorough)
      if (isThorough) lookedAtAll = now
    })
    const recover = Effect.gen(function* () {
      if (yield* lock.isSteady) yield* takeDue
      const due = endings.due(yield* Monotonic.now)
      yield* Effect.forEach(due, (ending) => logFailure(ending.abandoned, endings.write(ending)), {
        concurrency,
        discard: true
      })
    })

    const interval = Duration.min(Duration.millis(Duration.toMillis(leaseTtl) / 3), Duration.seconds(3))
    const someoneLeft = Latch.makeUnsafe(false)
    const readersGone = Latch.makeUnsafe(true)
    let others = 0
    const countOthers = Effect.sync(() => {
      const { isOldest, others: now } = lock.duties()
      if (isOldest && now < others) readersGone.openUnsafe()
      others = now
    })
    yield* notices.subscribe(({ _tag }) => {
      if (_tag === "PlansLeft") someoneLeft.openUnsafe()
    })
    yield* recover
    yield* readersGone.await.pipe(
      Effect.andThen(Effect.sync(() => readersGone.closeUnsafe())),
      Effect.andThen(endLeft()),
      Effect.forever,
      Effect.forkScoped
    )
    yield* Effect.timeoutOption(someoneLeft.await, interval).pipe(
      Effect.andThen(Effect.sync(() => someoneLeft.closeUnsafe())),
      Effect.andThen(recover),
      Effect.andThen(countOthers),
      Effect.catchCause((cause) => Effect.logWarning("recovery_failed", cause)),
      Effect.forever,
      Effect.forkScoped
    )
  })
)
