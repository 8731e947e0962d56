import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Duration, Effect, Exit, FiberMap, Latch, Option, type Scope } from "effect"
import type { LeaseStore, ReplicaId } from "../store/LeaseStore.ts"
import { Notices, pollAfter } from "../store/Notices.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import { counter, gauge, observe } from "../telemetry/Instrument.ts"
import { claim } from "./Claim.ts"

const held = gauge({ name: "bowline.leases.held", description: "Sessions that this process may write" })
const lost = counter({
  name: "bowline.leases.lost",
  description: "Leases that a renewal did not return: another process may have the session"
})

/** A plan, or another change, that waits for a session or holds it. */
export interface Listener {
  /** The place in the line: 1 is the next one. */
  readonly onQueued: (position: number) => void
  /** A renewal did not find the lease. Returns whether it is lost, and with it the right to write, and the holder did not know yet. */
  readonly onLost: () => boolean
}

interface Parts {
  readonly store: LeaseStore["Service"]
  readonly notices: Notices["Service"]
  readonly replica: ReplicaId
  readonly ttl: Duration.Duration
  readonly releases: FiberMap.FiberMap<SessionId, void>
}

interface Lease {
  readonly fence: number
  readonly lost: Listener["onLost"]
}

/** The leases of this process: those that it holds, and those that it asks the store for. At most one caller at a time asks for a session. */
export class HeldLeases {
  readonly #parts: Parts
  readonly #held = new Map<SessionId, Lease>()
  readonly #acquiring = new Set<SessionId>()
  /** Sessions that another replica holds and that somebody here waits for. */
  readonly #wanted = new Map<SessionId, Latch.Latch>()
  /** What runs now and may bring leases that are not held here yet, by the order in which it began. */
  readonly #expecting = new Set<number>()
  #expected = 0
  /** The leases in the store that nobody here uses, and how much had begun to expect leases when that was first seen. */
  #unused = new Map<SessionId, number>()
  #isClosed = false

  private constructor(parts: Parts) {
    this.#parts = parts
  }

  static readonly make = Effect.fnUntraced(function* (given: Omit<Parts, "notices" | "releases">) {
    const notices = yield* Notices
    const leases = new HeldLeases({ ...given, notices, releases: yield* FiberMap.make<SessionId, void>() })
    yield* observe(held.of({}), () => leases.#held.size)
    yield* notices.subscribe((heard) => {
      if (heard._tag === "LeaseReleased") leases.#free(heard.session_id)
      if (heard._tag === "ListeningChanged") for (const session of leases.#wanted.keys()) leases.#free(session)
    })
    return leases
  })

  /** From now on this process acquires no lease: a caller that asks waits until it is interrupted. */
  close(): void {
    this.#isClosed = true
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** The leases that are held at this instant. */
  snapshot(): ReadonlyMap<SessionId, Lease> {
    return new Map(this.#held)
  }

  /** Holds a lease that the store has granted, until the scope closes. Of two leases of a session, the earlier one is lost: also when its grant is heard of last. */
  hold(session: SessionId, fence: number, onLost: Listener["onLost"]): Effect.Effect<void, never, Scope.Scope> {
    const own = { fence, lost: onLost }
    const hold = Effect.suspend(() => {
      const other = this.#held.get(session)
      const isLate = other !== undefined && other.fence > fence
      if (!isLate) this.#held.set(session, own)
      // While this process was away, another one had the session, and has left it. No renewal tells of two leases of a session.
      const earlier = isLate ? own : other
      return earlier?.lost() === true ? lost.update(1, {}) : Effect.void
    })
    return claim(hold, () => {
      const free = Effect.sync(() => this.#free(session))
      // The next holder may be in this process.
      if (this.#held.get(session) !== own) return free
      this.#held.delete(session)
      return Effect.andThen(this.#release(session, fence), free)
    })
  }

  /** The store has ended the lease: nothing is released when its scope closes. */
  forget(session: SessionId, fence: number): void {
    if (this.#held.get(session)?.fence === fence) this.#held.delete(session)
  }

  /** Waits until the store grants the lease, holds it until the scope closes, and gives its fence. */
  acquire(session: SessionId, listener: Listener): Effect.Effect<number, NotFound | StorageError, Scope.Scope> {
    return Effect.ensuring(
      this.#acquire(session, listener),
      Effect.sync(() => this.#wanted.delete(session))
    )
  }

  readonly #acquire = Effect.fnUntraced(function* (this: HeldLeases, session: SessionId, listener: Listener) {
    const { notices, ttl } = this.#parts
    const free = Latch.makeUnsafe(false)
    this.#wanted.set(session, free)
    if (this.#isClosed) return yield* Effect.never
    const first = yield* this.#ask(session, listener, false)
    if (Option.isSome(first)) return first.value
    listener.onQueued(1)
    const waiting = Effect.gen({ self: this }, function* () {
      for (;;) {
        free.closeUnsafe()
        if (this.#isClosed) return yield* Effect.never
        const fence = yield* this.#ask(session, listener, true)
        if (Option.isSome(fence)) return fence.value
        // No notice tells that a lease has expired.
        yield* Effect.timeoutOption(free.await, Math.min(pollAfter(notices), Duration.toMillis(ttl) / 3))
      }
    })
    return yield* Effect.onExit(waiting, (exit) => (Exit.isSuccess(exit) ? Effect.void : this.#stopWaiting(session)))
  })

  /** In a fiber of its own: whoever is interrupted does not wait for it. */
  #stopWaiting(session: SessionId): Effect.Effect<void> {
    const { releases, replica, store } = this.#parts
    const stopping = Effect.ignore(store.stopWaiting(session, replica), { log: "Debug" })
    return Effect.asVoid(FiberMap.run(releases, session, stopping, { onlyIfMissing: true }))
  }

  /** Asks the store once, and holds the lease if it is granted. */
  #ask(session: SessionId, { onLost }: Listener, isWaiting: boolean) {
    const { store, replica, ttl } = this.#parts
    return Effect.uninterruptibleMask((restore) =>
      Effect.suspend(() => {
        this.#acquiring.add(session)
        return restore(retryWhileAway(store.acquire(session, replica, ttl, isWaiting)))
      }).pipe(
        Effect.tap((fence) => (Option.isNone(fence) ? Effect.void : this.hold(session, fence.value, onLost))),
        Effect.ensuring(Effect.sync(() => this.#acquiring.delete(session)))
      )
    )
  }

  /** Until the scope closes, a lease that the store grants is not released though it is not held here yet. */
  readonly expect: Effect.Effect<void, never, Scope.Scope> = Effect.asVoid(
    claim(
      Effect.sync(() => {
        this.#expecting.add(++this.#expected)
        return this.#expected
      }),
      (number) => Effect.sync(() => void this.#expecting.delete(number))
    )
  )

  /**
   * Compares what was held `before` a renewal was sent with what the store has renewed. Tells holders that their leases are lost,
   * and releases leases that nobody uses: an acquisition that was interrupted while the database answered leaves one. It waits for
   * all that expected leases when it first saw one. A lease that was acquired after the renewal was sent may be missing from the answer.
   */
  reconcile(before: ReadonlyMap<SessionId, Lease>, renewed: ReadonlyMap<SessionId, number>): Effect.Effect<void> {
    const gone = Array.from(before).filter(
      ([session, lease]) => this.#held.get(session) === lease && renewed.get(session) !== lease.fence && lease.lost()
    )
    const isUsed = (session: SessionId) => this.#held.has(session) || this.#acquiring.has(session)
    const unused = Array.from(renewed).filter(([session]) => !isUsed(session))
    this.#unused = new Map(unused.map(([session]) => [session, this.#unused.get(session) ?? this.#expected]))
    const [oldest = Infinity] = this.#expecting
    const released = unused.filter(([session]) => oldest > (this.#unused.get(session) ?? 0))
    // Each in a fiber of its own: a slow release must not keep the next renewal waiting.
    const releases = Effect.forEach(
      released,
      ([session, fence]) =>
        FiberMap.run(this.#parts.releases, session, this.#release(session, fence), { onlyIfMissing: true }),
      { discard: true }
    )
    return Effect.andThen(lost.update(gone.length, {}), releases)
  }

  #release(session: SessionId, fence: number): Effect.Effect<void> {
    return this.#parts.store
      .release(session, fence)
      .pipe(Effect.ignore({ log: "Warn", message: "lease_release_failed" }))
  }

  #free(session: SessionId): void {
    this.#wanted.get(session)?.openUnsafe()
  }
}
