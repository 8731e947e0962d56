import type { PlanId } from "@bowline/domain/plan/Plan"
import { Deferred, Effect, FiberSet, Latch, Option } from "effect"
import type { ReplicaId } from "../store/LeaseStore.ts"
import { LruCache } from "../process/LruCache.ts"
import type { LivePlan } from "./LivePlan.ts"
import { type Notice, Notices } from "../store/Notices.ts"

/** How long a replica counts as a reader without saying again that it reads the plan. */
const expiry = "15 seconds"

/** How many plans are remembered that came from elsewhere and are over. */
const maxEnded = 1_000

/** A replica that reads a plan of this one. */
interface RemoteReader {
  readonly renewed: Latch.Latch
  hasLeft: boolean
}

/**
 * Counts other replicas that read a plan of this process as readers of it, until they say that they stop, or say nothing for a
 * while, and tells them when there are new events. Plans that nobody reads elsewhere cost nothing.
 *
 * A plan that was taken over has readers whose replicas say so only then: it may be over before they are heard. They are told of that when they are
 * heard, if `ended` was called. Once is enough: whoever says later that it reads the plan has yet to look into the store.
 */
export const serve = Effect.fnUntraced(function* (find: (id: PlanId) => LivePlan | undefined) {
  const notices = yield* Notices
  const run = yield* FiberSet.makeRuntime()
  const readers = new Map<string, RemoteReader>()
  const news = new Set<PlanId>()
  const pending = Latch.makeUnsafe(false)
  const ended = new LruCache<PlanId, true>(maxEnded)

  const tell = (id: PlanId) => {
    news.add(id)
    pending.openUnsafe()
  }

  /** While no notices arrive at all, silence does not mean that a reader has stopped. */
  const stay = Effect.fnUntraced(function* (id: PlanId, live: LivePlan, reader: RemoteReader) {
    yield* live.watch(() => tell(id))
    for (let isHeard = true; (isHeard || !notices.isListening()) && !reader.hasLeft;) {
      reader.renewed.closeUnsafe()
      isHeard = Option.isSome(yield* Effect.timeoutOption(reader.renewed.await, expiry))
    }
  }, Effect.scoped)

  const enter = (replica: ReplicaId, id: PlanId) => {
    const key = `${replica} ${id}`
    const known = readers.get(key)
    if (known !== undefined) return known.renewed.openUnsafe()
    const live = find(id)
    if (live === undefined) {
      if (ended.peek(id) !== undefined) tell(id)
      return ended.delete(id)
    }
    const reader = { renewed: Latch.makeUnsafe(false), hasLeft: false }
    readers.set(key, reader)
    const gone = Effect.sync(() => readers.get(key) === reader && readers.delete(key))
    return run(stay(id, live, reader).pipe(Effect.raceFirst(Deferred.await(live.closed)), Effect.ensuring(gone)))
  }

  const leave = (replica: ReplicaId, id: PlanId) => {
    const key = `${replica} ${id}`
    const reader = readers.get(key)
    if (reader === undefined) return
    readers.delete(key)
    reader.hasLeft = true
    reader.renewed.openUnsafe()
  }

  yield* notices.subscribe((heard) => {
    if (heard._tag === "Reading") for (const id of heard.plan_ids) enter(heard.replica, id)
    if (heard._tag === "Left") for (const id of heard.plan_ids) leave(heard.replica, id)
    if (heard._tag === "Outdated") for (const id of heard.plan_ids) find(id)?.outdate()
    if (heard._tag === "Unread") find(heard.plan_id)?.awaitNobody()
    // Notices were missed meanwhile, so every reader gets the whole time again.
    if (heard._tag === "ListeningChanged") for (const { renewed } of readers.values()) renewed.openUnsafe()
  })

  // After the commit, not in it: in Postgres, commits with notifications wait for one another.
  yield* Effect.gen(function* () {
    yield* pending.await
    pending.closeUnsafe()
    const advanced = Array.from(news, (plan_id): Notice => ({ _tag: "Advanced", plan_id }))
    news.clear()
    yield* Effect.ignore(notices.publish(advanced))
  }).pipe(
    Effect.catchCause((cause) => Effect.logError("news_notices_failed", cause)),
    Effect.forever,
    Effect.forkScoped
  )
  return { ended: (id: PlanId) => ended.set(id, true) }
})
