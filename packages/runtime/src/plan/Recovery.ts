import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Clock, Duration, Effect, Latch, Layer, Option, Predicate } from "effect"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import * as LeftTasks from "./LeftTasks.ts"
import { PeerClient } from "../peer/PeerClient.ts"
import { LeaseStore } from "../store/LeaseStore.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import { Notices } from "../store/Notices.ts"
import { LocalTools } from "../tool/LocalTools.ts"
import * as Abandonment from "./Abandonment.ts"
import { supersede } from "./Cancellation.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import { type AbandonedPlan, type PlanCommit, PlanStore } from "../store/PlanStore.ts"
import * as Resumption from "../planner/Resumption.ts"
import { RunningPlans } from "./RunningPlans.ts"
import { SecretKey } from "../store/SecretKey.ts"
import * as StoredRequest from "../store/StoredRequest.ts"

/** So many plans are taken over at once, though they are more than this replica may run: somebody has to. */
const leastTaken = 100

/** Settled side by side. */
const concurrency = 8

/** A plan that nobody can go on with, and its end: the very same is written again until the store has answered. */
interface Ending {
  readonly abandoned: AbandonedPlan
  readonly commit: PlanCommit
}

const storedAgents = ({ request }: AbandonedPlan): ReadonlyArray<unknown> => {
  const stored: unknown = request?.request
  return Predicate.hasProperty(stored, "agents") && Array.isArray(stored.agents) ? stored.agents : []
}

/**
 * Takes over what others have left behind, and goes on with it, or settles it: at the start, when somebody says that he leaves, and
 * else every third of a lease, at most 3 s.
 */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const store = yield* PlanStore
    const leases = yield* LeaseStore
    const lock = yield* SessionLock
    const running = yield* RunningPlans
    const notices = yield* Notices
    const peers = yield* PeerClient
    const secretKey = yield* SecretKey
    const localTools = yield* LocalTools
    const { leaseTtl, resume, takeoverGrace } = yield* PlansConfig
    const uuid = yield* UuidGenerator

    const goOn = Effect.fnUntraced(function* (abandoned: AbandonedPlan, request: PlanRequest) {
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
      // Its process may have died before it did that.
      if (guard._tag === "Queued" && request.preferences.on_busy === "interrupt") {
        yield* supersede(running, store, caller, plan)
      }
      yield* Effect.logInfo(guard._tag === "Held" ? "plan_resumed" : "plan_queued_again")
      yield* Effect.ignore(notices.publish([{ _tag: "TakenOver", plan_id }]))
    })

    const endings = new Set<Ending>()

    const take = Effect.fnUntraced(function* (abandoned: AbandonedPlan) {
      const { plan_id } = abandoned.plan
      const request = Option.flatMap(Option.fromNullishOr(abandoned.request), (stored) =>
        StoredRequest.restore(stored, plan_id, secretKey)
      )
      const obstacle = Resumption.obstacle(abandoned, Option.getOrUndefined(request), { resume, localTools })
      if (obstacle === undefined && Option.isSome(request)) return yield* goOn(abandoned, request.value)
      const now = yield* Clock.currentTimeMillis
      endings.add({ abandoned, commit: Abandonment.settlement(abandoned, now, uuid) })
      yield* Effect.annotateLogs(Effect.logWarning("plan_interrupted"), { reason: obstacle })
    })

    const settle = Effect.fnUntraced(function* (ending: Ending) {
      const { abandoned, commit } = ending
      const { plan_id, session_id, guard } = commit
      const refused = yield* Effect.catchTag(store.commit([commit]), "StorageError", (error) => {
        // What is refused once would be refused for ever.
        if (!error.reason.isRetryable) endings.delete(ending)
        return Effect.fail(error)
      })
      endings.delete(ending)
      if (guard._tag === "Held") yield* Effect.ignore(leases.release(session_id, guard.fence), { log: "Warn" })
      if (refused.has(plan_id)) return
      const open = abandoned.tasks.filter(({ state }) => state === "running")
      yield* LeftTasks.cancelAll(peers, LeftTasks.reachable(storedAgents(abandoned)), abandoned.route, open)
      yield* Effect.ignore(notices.publish([{ _tag: "Advanced", plan_id }]))
    })

    /** One plan that cannot be taken care of holds up no other. */
    const caring = <E>({ owner: caller, plan }: AbandonedPlan, care: Effect.Effect<void, E>) => {
      const { plan_id, session_id } = plan
      return care.pipe(
        Effect.catchCause((cause) => Effect.logError("recovery_failed", cause)),
        Effect.annotateLogs({ plan_id, session_id, caller })
      )
    }

    const taking = Effect.gen(function* () {
      // What is taken over is no less this replica's, when it is shut down, than what it runs.
      yield* running.reserve(Infinity)
      const limit = Math.max(running.room(), leastTaken)
      const taken = yield* store.takeOver(lock.replica, leaseTtl, limit)
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
      yield* Effect.forEach(Array.from(endings), (ending) => caring(ending.abandoned, settle(ending)), {
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
