import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Clock, Duration, Effect, Latch, Layer, Option, Predicate } from "effect"
import { UuidGenerator } from "../id/UuidGenerator.ts"
import * as LeftTasks from "../peer/LeftTasks.ts"
import { PeerClient } from "../peer/PeerClient.ts"
import { LeaseStore } from "../session/LeaseStore.ts"
import { SessionLock } from "../session/SessionLock.ts"
import { Notices } from "../stream/Notices.ts"
import { LocalTools } from "../tool/LocalTools.ts"
import * as Abandonment from "./Abandonment.ts"
import { PlansConfig } from "./PlansConfig.ts"
import { type AbandonedPlan, PlanStore } from "./PlanStore.ts"
import * as Resumption from "./Resumption.ts"
import { RunningPlans } from "./RunningPlans.ts"
import { SecretKey } from "./SecretKey.ts"
import * as StoredRequest from "./StoredRequest.ts"

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
        recent: [],
        createdAt: Date.parse(plan.created_at),
        deadline: Date.parse(plan.deadline_at),
        head: Resumption.headOf(abandoned),
        resumed: guard._tag === "Held" ? Resumption.read(abandoned) : undefined,
        awaited: takeoverGrace
      })
      yield* Effect.logInfo(guard._tag === "Held" ? "plan_resumed" : "plan_queued_again").pipe(
        Effect.annotateLogs({ plan_id, session_id })
      )
      yield* Effect.ignore(notices.publish([{ _tag: "TakenOver", plan_id }]))
    })

    /** Taken over, and not settled yet. */
    let left: ReadonlyArray<AbandonedPlan> = []

    const take = Effect.fnUntraced(function* (abandoned: AbandonedPlan) {
      const { plan_id, session_id } = abandoned.plan
      const request = Option.flatMap(Option.fromNullishOr(abandoned.request), (stored) =>
        StoredRequest.restore(stored, plan_id, secretKey)
      )
      const obstacle = Resumption.obstacle(abandoned, Option.getOrUndefined(request), { resume, localTools })
      if (obstacle === undefined && Option.isSome(request)) return yield* goOn(abandoned, request.value)
      left = [...left, abandoned]
      yield* Effect.annotateLogs(Effect.logWarning("plan_interrupted"), { plan_id, session_id, reason: obstacle })
    })

    const settle = Effect.fnUntraced(function* (settling: ReadonlyArray<AbandonedPlan>) {
      const now = yield* Clock.currentTimeMillis
      const refused = yield* store.commit(
        settling.map((abandoned) => Abandonment.settlement(abandoned, now, uuid)),
        true
      )
      left = left.filter((abandoned) => !settling.includes(abandoned))
      for (const abandoned of settling) {
        const { plan, guard, route, tasks } = abandoned
        if (guard._tag === "Held") yield* leases.release(plan.session_id, guard.fence)
        if (refused.has(plan.plan_id)) continue
        const agents = LeftTasks.reachable(storedAgents(abandoned))
        const open = tasks.filter(({ state }) => state === "running")
        yield* LeftTasks.cancelAll(peers, agents, route, open)
      }
      yield* Effect.ignore(notices.publish(settling.map(({ plan: { plan_id } }) => ({ _tag: "Advanced", plan_id }))))
    })

    const recover = Effect.gen(function* () {
      if (!running.isDraining() && (yield* lock.isSteady)) {
        const taking = Effect.flatMap(store.takeOver(lock.replica, leaseTtl), (taken) =>
          Effect.forEach(taken, take, { concurrency: "unbounded", discard: true })
        )
        yield* lock.takingOver(taking)
      }
      if (left.length > 0) yield* settle(left)
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
