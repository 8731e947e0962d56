import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Context, Duration, Effect, Layer, type Scope, Semaphore } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import { LeaseStore, type Renewal, type ReplicaId } from "../store/LeaseStore.ts"
import { counter } from "../telemetry/Instrument.ts"
import { claim } from "./Claim.ts"
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
     * Holds the session whose lease came with a plan, with this fence, until the scope closes. Whoever waits for the session in this
     * process stays behind it: the store grants no lease on a session with a running plan. That is never an open plan, but it may be
     * a change from outside: the store does not know who waits here.
     */
    readonly adopt: (
      session: SessionId,
      fence: number,
      onLost: Listener["onLost"]
    ) => Effect.Effect<void, never, Scope.Scope>
    /** The store has ended the lease with the last write of its plan: it is not released once more when its scope closes. */
    readonly forget: (session: SessionId, fence: number) => Effect.Effect<void>
    /** Whether no renewal has succeeded for the time of a lease: other replicas may hold the sessions by now. */
    readonly isOverdue: () => boolean
    /** What the last renewal has said of the other replicas. */
    readonly duties: () => Omit<Renewal, "held">
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
      const lines = new Lines()
      const { duties, isOverdue, isSteady, leave } = yield* keepRenewed(leases, { store, replica, ttl })

      return {
        replica,
        isSteady,
        isOverdue,
        duties,
        leave,
        leaseTtl: () => (leases.isClosed ? undefined : ttl),
        expectLeases: leases.expect,
        forget: (session, fence) => Effect.sync(() => leases.forget(session, fence)),
        adopt: Effect.fnUntraced(function* (session, fence, onLost) {
          yield* lines.enterFirst(session, { onQueued: () => {}, onLost })
          yield* leases.hold(session, fence, onLost)
        }),
        acquire: Effect.fnUntraced(function* (session, listener) {
          yield* lines.enter(session, listener)
          return yield* leases.acquire(session, listener)
        })
      }
    })
  )
}

/** The lines of the sessions that plans of this process hold or wait for. */
class Lines {
  readonly #lines = new Map<SessionId, Line>()

  /** Waits in the line of the session until it is its turn, and leaves the line when the scope closes. */
  readonly enter = Effect.fnUntraced(function* (this: Lines, session: SessionId, listener: Listener) {
    const line = yield* this.#stand(session, listener)
    if (line.members.length > 1) listener.onQueued(line.members.length - 1)
    yield* Semaphore.takeScoped(line.turn, 1)
  })

  /** Goes ahead of those who wait. One of them may be asking the store for the session: it waits until the store grants it. */
  readonly enterFirst = Effect.fnUntraced(function* (this: Lines, session: SessionId, listener: Listener) {
    const { turn } = yield* this.#stand(session, listener)
    yield* claim(turn.takeIfAvailable(1), (isTaken) => (isTaken ? turn.release(1) : Effect.void))
  })

  /** Stands in the line until the scope closes. */
  #stand(session: SessionId, listener: Listener): Effect.Effect<Line, never, Scope.Scope> {
    return claim(
      Effect.sync(() => {
        const line = this.#lines.get(session) ?? { turn: Semaphore.makeUnsafe(1), members: [] }
        this.#lines.set(session, line)
        line.members.push(listener)
        return line
      }),
      (line) => Effect.sync(() => this.#leave(session, line, listener))
    )
  }

  #leave(session: SessionId, { members }: Line, listener: Listener): void {
    const index = members.indexOf(listener)
    members.splice(index, 1)
    members.forEach((member, position) => {
      if (position > 0 && position >= index) member.onQueued(position)
    })
    if (members.length === 0) this.#lines.delete(session)
  }
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

  let last: Renewal = yield* store.renew(replica, leaseTtl)
  const clock = yield* Clock.Clock
  let renewed = Monotonic.millis(clock)
  let steadySince = -Infinity
  const renewing = Effect.gen(function* () {
    if (leases.isClosed) return Infinity
    const before = leases.snapshot()
    const asked = Monotonic.millis(clock)
    last = yield* Effect.timeout(store.renew(replica, leaseTtl), ttl / 3)
    yield* leases.reconcile(before, last.held)
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

  const isSteady = Effect.sync(() => {
    const now = Monotonic.millis(clock)
    return now - renewed <= (2 / 3) * ttl && now - steadySince >= ttl / 3
  })
  return { isSteady, isOverdue: () => Monotonic.millis(clock) - renewed >= ttl, duties: () => last, leave }
})
