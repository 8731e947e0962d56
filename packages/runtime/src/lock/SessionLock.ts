import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Context, Duration, Effect, Layer, RcMap, type Scope, Semaphore } from "effect"
import { PlansConfig } from "../config/PlansConfig.ts"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import { LeaseStore, type ReplicaId } from "../store/LeaseStore.ts"
import { counter } from "../telemetry/Instrument.ts"
import { HeldLeases, type Listener } from "./HeldLeases.ts"

const renewals = counter({
  name: "bowline.lease.renewals",
  description: "Renewals of all leases together; `late` ones came after two thirds of the time of a lease",
  labels: { result: ["in_time", "late", "failed"] }
})

/** The line for a session in this process, in the order of arrival. The first member holds the session, or asks for its lease. */
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
     * Whether the leases have been renewed in time for a while. All leases expire while the database is away, so every living replica
     * must have the time to renew its own before any replica takes plans over.
     */
    readonly isSteady: Effect.Effect<boolean>
    /** Waits for the session and returns its fence. Fails with `NotFound` if the session is deleted. Releases it when the scope closes. */
    readonly acquire: (
      session: SessionId,
      listener: Listener
    ) => Effect.Effect<number, NotFound | StorageError, Scope.Scope>
    /** The time of a lease that a new plan may get; undefined once this process acquires no session any more. */
    readonly leaseTtl: () => Duration.Duration | undefined
    /** Until the scope closes, the store may grant leases for which `adopt` is not called yet: they are not released as unknown. */
    readonly expectLeases: Effect.Effect<void, never, Scope.Scope>
    /**
     * Holds the session whose lease came with a plan, with this fence, until the scope closes. Plans that wait for the session in this
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
      const store = yield* LeaseStore
      const { leaseTtl: ttl } = yield* PlansConfig
      const replica = `replica_${(yield* UuidGenerator)()}`
      const leases = yield* HeldLeases.make({ store, replica, ttl })
      const lines = yield* RcMap.make({
        lookup: (_session: SessionId) => Effect.map(Semaphore.make(1), (turn): Line => ({ turn, members: [] }))
      })
      const { isOverdue, isSteady, leave } = yield* keepRenewed(leases, { store, replica, ttl })

      return {
        replica,
        isSteady,
        isOverdue,
        leave,
        leaseTtl: () => (leases.isClosed ? undefined : ttl),
        expectLeases: leases.expect,
        adopt: Effect.fnUntraced(function* (session, fence, onLost) {
          const line = yield* RcMap.get(lines, session)
          const listener = { onQueued: () => {}, onLost }
          yield* Effect.acquireRelease(
            Effect.sync(() => line.members.unshift(listener)),
            () => Effect.sync(() => leaveLine(line, listener))
          )
          // Somebody may be asking the store for the session: whoever does waits until the store grants it.
          yield* Effect.acquireRelease(line.turn.takeIfAvailable(1), (isTaken) => line.turn.release(isTaken ? 1 : 0))
          yield* leases.hold(session, fence, onLost)
        }),
        acquire: Effect.fnUntraced(function* (session, listener) {
          const line = yield* RcMap.get(lines, session)
          yield* Effect.acquireRelease(
            Effect.sync(() => line.members.push(listener)),
            () => Effect.sync(() => leaveLine(line, listener))
          )
          if (line.members.length > 1) listener.onQueued(line.members.length - 1)
          yield* Semaphore.takeScoped(line.turn, 1)
          return yield* leases.acquire(session, listener)
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

interface Renewed {
  readonly store: LeaseStore["Service"]
  readonly replica: ReplicaId
  readonly ttl: Duration.Duration
}

/** Renews all leases every third of their time, until the replica leaves or the scope closes. */
const keepRenewed = Effect.fnUntraced(function* (leases: HeldLeases, { store, replica, ttl: leaseTtl }: Renewed) {
  const ttl = Duration.toMillis(leaseTtl)
  /** A renewal that arrives after `leave` would record the replica as alive. */
  const oneAtATime = Semaphore.makeUnsafe(1)
  const leave = Effect.suspend(() => {
    leases.close()
    return oneAtATime
      .withPermit(store.leave(replica))
      .pipe(Effect.ignore({ log: "Warn", message: "lease_release_failed" }))
  })
  yield* Effect.addFinalizer(() => (leases.isClosed ? Effect.void : leave))

  yield* store.renew(replica, leaseTtl)
  const clock = yield* Clock.Clock
  let renewed = clock.currentTimeMillisUnsafe()
  let steadySince = -Infinity
  const renewing = Effect.gen(function* () {
    if (leases.isClosed) return Infinity
    const before = leases.snapshot()
    const asked = yield* Clock.currentTimeMillis
    yield* leases.reconcile(before, yield* Effect.timeout(store.renew(replica, leaseTtl), ttl / 3))
    const isLate = asked - renewed > (2 / 3) * ttl
    if (isLate) steadySince = asked
    renewed = asked
    yield* renewals.update(1, { result: isLate ? "late" : "in_time" })
    return ttl / 3
  })
  const renew = oneAtATime.withPermit(renewing).pipe(
    // While the database is away nobody can write either. When it is back, the fence decides who may write.
    Effect.catchCause((cause) =>
      Effect.logWarning("lease_renewal_failed", cause).pipe(
        Effect.andThen(renewals.update(1, { result: "failed" })),
        Effect.as(Math.min(ttl / 6, 1_000))
      )
    )
  )
  yield* Effect.gen(function* () {
    for (let wait = ttl / 3; ; wait = yield* renew) yield* Effect.sleep(wait)
  }).pipe(Effect.forkScoped)

  const isSteady = Effect.map(
    Clock.currentTimeMillis,
    (now) => now - renewed <= (2 / 3) * ttl && now - steadySince >= ttl / 3
  )
  return { isSteady, isOverdue: () => clock.currentTimeMillisUnsafe() - renewed >= ttl, leave }
})
