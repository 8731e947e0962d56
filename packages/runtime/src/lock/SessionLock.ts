import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Context, Duration, Effect, FiberMap, Latch, Layer, Option, RcMap, type Scope, Semaphore } from "effect"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import { Notices, pollAfter } from "../store/Notices.ts"
import { LeaseStore, type ReplicaId } from "../store/LeaseStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"

/** Who waits for a session, or holds it. */
export interface Listener {
  /** The place in the line: 1 is the next one. */
  readonly onQueued: (position: number) => void
  /** The lease is gone, and with it the right to write. */
  readonly onLost: () => void
}

/** Those who want the session in this process, in the order in which they came. The first one holds it, or asks for its lease. */
interface Line {
  readonly turn: Semaphore.Semaphore
  readonly members: Array<Listener>
}

/**
 * The right to write a session: one at a time in this process, first come first served, and one replica at a time by a lease
 * whose fence guards every write. Leases are renewed together.
 */
export class SessionLock extends Context.Service<
  SessionLock,
  {
    /** This process, as the store knows it. */
    readonly replica: ReplicaId
    /**
     * Whether the leases have been renewed in time for a while. While the database is away every lease expires: every living replica
     * must have the time to renew its own before anybody takes plans over.
     */
    readonly isSteady: Effect.Effect<boolean>
    /** Waits for the session, as long as there is one, and gives its fence. It is free again when the scope closes. */
    readonly acquire: (
      session: SessionId,
      listener: Listener
    ) => Effect.Effect<number, NotFound | StorageError, Scope.Scope>
    /** While the effect runs, unknown leases are not released: it takes plans over, and has yet to `adopt` their leases. */
    readonly takingOver: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
    /**
     * Holds the session whose lease was taken over with this fence, until the scope closes. Those who wait for the session in this
     * process stay behind it: the store grants no lease on a session with a running plan.
     */
    readonly adopt: (
      session: SessionId,
      fence: number,
      onLost: Listener["onLost"]
    ) => Effect.Effect<void, never, Scope.Scope>
    /** Whether no renewal has succeeded for the time of a lease: other replicas may hold the sessions by now. */
    readonly isOverdue: () => boolean
    /** From now on this process acquires no session, and other replicas may take over its plans in the store. */
    readonly leave: Effect.Effect<void>
  }
>()("@bowline/runtime/lock/SessionLock") {
  static readonly layer = Layer.effect(
    SessionLock,
    Effect.gen(function* () {
      const leases = yield* LeaseStore
      const notices = yield* Notices
      const { leaseTtl } = yield* PlansConfig
      const replica = `replica_${(yield* UuidGenerator)()}`
      const held = new Map<SessionId, { readonly fence: number; readonly lost: () => void }>()
      const acquiring = new Set<SessionId>()
      const releases = yield* FiberMap.make<SessionId, void>()
      let takeOvers = 0
      let hasLeft = false
      /** Sessions that another replica holds and that somebody here waits for. */
      const wanted = new Map<SessionId, Latch.Latch>()
      const lines = yield* RcMap.make({
        lookup: (_session: SessionId) => Effect.map(Semaphore.make(1), (turn): Line => ({ turn, members: [] }))
      })

      const ttl = Duration.toMillis(leaseTtl)
      yield* notices.subscribe((heard) => {
        if (heard._tag === "LeaseReleased") wanted.get(heard.session_id)?.openUnsafe()
        if (heard._tag === "ListeningChanged") for (const free of wanted.values()) free.openUnsafe()
      })

      const release = (session: SessionId, fence: number) =>
        leases.release(session, fence).pipe(Effect.ignore({ log: "Warn" }))

      const hold = (session: SessionId, fence: number, lost: () => void) => {
        const own = { fence, lost }
        held.set(session, own)
        return Effect.addFinalizer(() => {
          // The next holder may be in this process.
          if (held.get(session) === own) held.delete(session)
          return Effect.andThen(
            release(session, fence),
            Effect.sync(() => wanted.get(session)?.openUnsafe())
          )
        })
      }

      const lease = Effect.fnUntraced(function* (session: SessionId, { onQueued, onLost }: Listener) {
        const free = Latch.makeUnsafe(false)
        wanted.set(session, free)
        for (let asked = 0; ; asked++) {
          free.closeUnsafe()
          if (hasLeft) return yield* Effect.never
          const fence = yield* Effect.uninterruptibleMask((restore) =>
            Effect.suspend(() => {
              acquiring.add(session)
              return restore(retryWhileAway(leases.acquire(session, replica, leaseTtl)))
            }).pipe(
              Effect.tap(
                Effect.fnUntraced(function* (fence) {
                  if (Option.isNone(fence)) return
                  yield* hold(session, fence.value, onLost)
                })
              ),
              Effect.ensuring(Effect.sync(() => acquiring.delete(session)))
            )
          )
          if (Option.isSome(fence)) return fence.value
          if (asked === 0) onQueued(1)
          // A lease that has expired is not announced.
          yield* Effect.timeoutOption(free.await, Math.min(pollAfter(notices), ttl / 3))
        }
      })

      // `before` was held when the renewal was sent: one that was acquired meanwhile may not be in the answer. An acquisition
      // that was interrupted while the database answered leaves a lease that nobody uses.
      const settle = (before: typeof held, renewed: ReadonlyMap<SessionId, number>) => {
        for (const [session, lease] of before) {
          if (held.get(session) === lease && renewed.get(session) !== lease.fence) lease.lost()
        }
        const orphans =
          takeOvers > 0 ? [] : Array.from(renewed).filter(([session]) => !held.has(session) && !acquiring.has(session))
        // Each in a fiber of its own: a slow release must not keep the next renewal waiting.
        return Effect.forEach(
          orphans,
          ([session, fence]) => FiberMap.run(releases, session, release(session, fence), { onlyIfMissing: true }),
          { discard: true }
        )
      }

      /** A renewal that comes behind would say that the replica lives. */
      const oneAtATime = Semaphore.makeUnsafe(1)
      const leave = Effect.suspend(() => {
        hasLeft = true
        const leaving = leases.leave(replica)
        return oneAtATime.withPermit(leaving).pipe(Effect.ignore({ log: "Warn" }))
      })
      yield* Effect.addFinalizer(() => (hasLeft ? Effect.void : leave))

      yield* leases.renew(replica, leaseTtl)
      const clock = yield* Clock.Clock
      let renewed = clock.currentTimeMillisUnsafe()
      let steadySince = -Infinity
      const renewing = Effect.gen(function* () {
        if (hasLeft) return Infinity
        const before = new Map(held)
        const asked = yield* Clock.currentTimeMillis
        yield* settle(before, yield* Effect.timeout(leases.renew(replica, leaseTtl), ttl / 3))
        if (asked - renewed > (2 / 3) * ttl) steadySince = asked
        renewed = asked
        return ttl / 3
      })
      const renew = oneAtATime.withPermit(renewing).pipe(
        // With the database away nothing can be written either, and its fence tells who may when it is back.
        Effect.catchCause((cause) =>
          Effect.as(Effect.logWarning("lease_renewal_failed", cause), Math.min(ttl / 6, 1_000))
        )
      )
      yield* Effect.gen(function* () {
        for (let wait = ttl / 3; ; wait = yield* renew) yield* Effect.sleep(wait)
      }).pipe(Effect.forkScoped)

      return {
        replica,
        isSteady: Effect.map(
          Clock.currentTimeMillis,
          (now) => now - renewed <= (2 / 3) * ttl && now - steadySince >= ttl / 3
        ),
        takingOver: (effect) =>
          Effect.acquireUseRelease(
            Effect.sync(() => takeOvers++),
            () => effect,
            () => Effect.sync(() => takeOvers--)
          ),
        adopt: hold,
        isOverdue: () => clock.currentTimeMillisUnsafe() - renewed >= ttl,
        leave,
        acquire: Effect.fnUntraced(function* (session, listener) {
          const line = yield* RcMap.get(lines, session)
          yield* Effect.acquireRelease(
            Effect.sync(() => line.members.push(listener)),
            () => Effect.sync(() => leaveLine(line, listener))
          )
          if (line.members.length > 1) listener.onQueued(line.members.length - 1)
          yield* Semaphore.takeScoped(line.turn, 1)
          return yield* Effect.ensuring(
            lease(session, listener),
            Effect.sync(() => wanted.delete(session))
          )
        })
      }
    })
  )
}

const leaveLine = (line: Line, listener: Listener): void => {
  const index = line.members.indexOf(listener)
  line.members.splice(index, 1)
  line.members.forEach((member, position) => {
    if (position > 0 && position >= index) member.onQueued(position)
  })
}
