import type { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Clock, Duration, Effect, Exit, Latch, Layer, Option, Predicate, Scope } from "effect"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import * as LeftTasks from "./LeftTasks.ts"
import { PeerClient } from "../peer/PeerClient.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import { Notices } from "../store/Notices.ts"
import { LocalTools } from "../tool/LocalTools.ts"
import * as Abandonment from "./Abandonment.ts"
import { supersede } from "./Cancellation.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import { type AbandonedPlan, type PlanCommit, PlanStore } from "../store/PlanStore.ts"
import * as Resumption from "../planner/Resumption.ts"
import { NewPlans } from "./NewPlans.ts"
import { RunningPlans } from "./RunningPlans.ts"
import { SecretKey } from "../store/SecretKey.ts"
import * as StoredRequest from "../store/StoredRequest.ts"

/** At least so many plans are taken over at once, even beyond what this replica may run: some replica has to. */
const leastTaken = 100

/** So many ends are written side by side. */
const concurrency = 8

/** Between two tries to write an end that the database rejects, in milliseconds. */
const leastPause = 3_000
const mostPause = 300_000

/** The end of a plan that no process can resume. The very same commit is written again until the store has answered. */
interface Ending {
  readonly abandoned: AbandonedPlan
  /** Holds the session's lease, so that nobody takes the plan over again. */
  readonly scope: Scope.Closeable
  commit: PlanCommit
  /** How long the next try waits, and when it comes. Times in milliseconds. */
  pause: number
  due: number
}

const storedAgents = ({ request }: AbandonedPlan): ReadonlyArray<unknown> => {
  const stored: unknown = request?.request
  return Predicate.hasProperty(stored, "agents") && Array.isArray(stored.agents) ? stored.agents : []
}

/**
 * Takes over plans that nobody runs, and resumes or settles them: at the start, when another replica leaves, and otherwise every
 * third of a lease, at most every 3 s.
 */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const store = yield* PlanStore
    const lock = yield* SessionLock
    const running = yield* RunningPlans
    const plans = yield* NewPlans
    const notices = yield* Notices
    const peers = yield* PeerClient
    const secretKey = yield* SecretKey
    const localTools = yield* LocalTools
    const { leaseTtl, resume, takeoverGrace } = yield* PlansConfig
    const uuid = yield* UuidGenerator

    const resumePlan = Effect.fnUntraced(function* (abandoned: AbandonedPlan, request: PlanRequest) {
      const { plan, owner: caller, guard, route } = abandoned
      const { plan_id, session_id, model } = plan
      yield* running.run({
        plan_id,
        session_id,
        caller,
        request,
        model,
        route,
        guard,
        createdAt: Date.parse(plan.created_at),
        deadline: Date.parse(plan.deadline_at),
        head: Resumption.headOf(abandoned),
        recent: [],
        resumed: guard._tag === "Held" ? Resumption.read(abandoned) : undefined,
        awaited: takeoverGrace
      })
      // Its process may have died before it ended the older plans.
      if (guard._tag === "Queued" && request.preferences.on_busy === "interrupt") {
        yield* supersede(running, store, caller, plan)
      }
      yield* Effect.logInfo(guard._tag === "Held" ? "plan_resumed" : "plan_queued_again")
      yield* Effect.ignore(notices.publish([{ _tag: "TakenOver", plan_id }]))
    })

    const layerScope = yield* Effect.scope
    const endings = new Map<PlanId, Ending>()

    const drop = ({ abandoned, scope }: Ending) => {
      endings.delete(abandoned.plan.plan_id)
      return Scope.close(scope, Exit.void)
    }

    const take = Effect.fnUntraced(function* (abandoned: AbandonedPlan) {
      const { plan_id } = abandoned.plan
      const request = Option.flatMap(Option.fromNullishOr(abandoned.request), (stored) =>
        StoredRequest.restore(stored, plan_id, secretKey)
      )
      const obstacle = Resumption.obstacle(abandoned, Option.getOrUndefined(request), { resume, localTools })
      if (obstacle === undefined && Option.isSome(request)) return yield* resumePlan(abandoned, request.value)
      const now = yield* Clock.currentTimeMillis
      const { plan, guard } = abandoned
      const earlier = endings.get(plan_id)
      if (earlier !== undefined) yield* drop(earlier)
      const scope = yield* Scope.fork(layerScope)
      const commit = Abandonment.settlement(abandoned, Resumption.shownText(abandoned), now, uuid)
      const ending: Ending = { abandoned, scope, commit, pause: 0, due: now }
      endings.set(plan_id, ending)
      if (guard._tag === "Held") {
        // Whoever has the session now ends the plan: the next write is refused.
        const onLost = () => void (ending.due = 0)
        yield* Scope.provide(lock.adopt(plan.session_id, guard.fence, onLost), scope)
      }
      yield* Effect.annotateLogs(Effect.logWarning("plan_interrupted"), { reason: obstacle })
    })

    /** The store would reject the same commit again: the next one has no text, and those after it come ever more seldom. */
    const postpone = Effect.fnUntraced(function* (ending: Ending) {
      const now = yield* Clock.currentTimeMillis
      ending.due = now + ending.pause
      ending.pause = Math.min(Math.max(2 * ending.pause, leastPause), mostPause)
      ending.commit = Abandonment.settlement(ending.abandoned, "", now, uuid)
    })

    const settle = Effect.fnUntraced(function* (ending: Ending) {
      const { abandoned, commit } = ending
      const { plan_id } = commit
      const refused = yield* store
        .commit([commit])
        .pipe(Effect.tapError(({ reason }) => (reason.isRetryable ? Effect.void : postpone(ending))))
      yield* drop(ending)
      if (refused.has(plan_id)) return
      const open = abandoned.tasks.filter(({ state }) => state === "running")
      yield* LeftTasks.cancelAll(peers, LeftTasks.reachable(storedAgents(abandoned)), abandoned.route, open)
      yield* Effect.ignore(notices.publish([{ _tag: "Advanced", plan_id }]))
    })

    /** A failure with one plan delays no other. */
    const caring = <E>({ owner: caller, plan }: AbandonedPlan, care: Effect.Effect<void, E>) => {
      const { plan_id, session_id } = plan
      return care.pipe(
        Effect.catchCause((cause) => Effect.logError("recovery_failed", cause)),
        Effect.annotateLogs({ plan_id, session_id, caller })
      )
    }

    const taking = Effect.gen(function* () {
      // A drain waits for what is being taken over as for what runs.
      yield* running.reserve(Infinity)
      const limit = Math.max(running.room(), leastTaken)
      // Of this replica's own plans those whose creation was stored after nobody waited for it any more.
      const queued = yield* store.queued(lock.replica)
      const forgotten = queued.filter((id) => !plans.isKnown(id) && !endings.has(id))
      const taken = yield* store.takeOver(lock.replica, leaseTtl, limit, forgotten)
      yield* Effect.forEach(taken, (abandoned) => caring(abandoned, take(abandoned)), {
        concurrency: "unbounded",
        discard: true
      })
    }).pipe(
      Effect.scoped,
      lock.takingOver,
      Effect.catchTag("NotAccepting", () => Effect.void)
    )

    const recover = Effect.gen(function* () {
      if (yield* lock.isSteady) yield* taking
      const now = yield* Clock.currentTimeMillis
      const due = Array.from(endings.values()).filter((ending) => ending.due <= now)
      yield* Effect.forEach(due, (ending) => caring(ending.abandoned, settle(ending)), {
        concurrency,
        discard: true
      })
    })

    const interval = Duration.min(Duration.millis(Duration.toMillis(leaseTtl) / 3), Duration.seconds(3))
    const someoneLeft = Latch.makeUnsafe(false)
    yield* notices.subscribe(({ _tag }) => {
      if (_tag === "PlansLeft") someoneLeft.openUnsafe()
    })
    yield* recover
    yield* Effect.timeoutOption(someoneLeft.await, interval).pipe(
      Effect.andThen(Effect.sync(() => someoneLeft.closeUnsafe())),
      Effect.andThen(recover),
      Effect.catchCause((cause) => Effect.logWarning("recovery_failed", cause)),
      Effect.forever,
      Effect.forkScoped
    )
  })
)
