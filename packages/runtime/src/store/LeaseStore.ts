import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, type Duration, type Effect, type Option, Data } from "effect"

/** The guard of a write no longer holds: another replica has the session or the plan, or it was deleted. */
export class LeaseLost extends Data.TaggedError("LeaseLost") {}

/** What a replica learns with each renewal. */
export interface Renewal {
  /** The fence of each session that the replica still holds. */
  readonly held: ReadonlyMap<SessionId, number>
  /** Whether it has lived for longer than the other replicas that know of this duty: it ends waits whose time is over, for all of them. */
  readonly isOldest: boolean
  /** Whether every living replica knows what a parked plan is. */
  readonly mayPark: boolean
  /** How many other replicas live. */
  readonly others: number
}

/** One process of the gateway: `replica_` and a UUID, new at every start. */
export type ReplicaId = string

/**
 * Which replica may write which session. A lease is a row with a fencing token and an expiry on the database's clock. The token is
 * the session's `fence`: it grows with every acquisition, and every write of a plan checks it.
 */
export class LeaseStore extends Context.Service<
  LeaseStore,
  {
    /**
     * Acquires the session's lease and returns its new fence. Returns none while another replica holds an unexpired lease, or
     * while a plan of the session is `running`: a running plan without a replica must be taken over and end first. A lease that
     * this same replica holds, perhaps from an interrupted request, is replaced. Of two concurrent calls one gets the lease. Fails
     * with `NotFound` if the session does not exist, or was deleted. A replica that `isWaiting` is told (`LeaseReleased`) of each release
     * behind this call, until it gets the lease, or stops waiting.
     */
    readonly acquire: (
      session: SessionId,
      replica: ReplicaId,
      ttl: Duration.Duration,
      isWaiting?: boolean
    ) => Effect.Effect<Option.Option<number>, NotFound | StorageError>
    /** Nobody on the replica waits for the session any more. */
    readonly stopWaiting: (session: SessionId, replica: ReplicaId) => Effect.Effect<void, StorageError>
    /**
     * Records in one statement that the replica is alive, and renews all its leases. That includes an expired lease that nobody
     * has acquired since, so that plans outlast a database that was away. A lease that is missing in what it gives is lost.
     */
    readonly renew: (replica: ReplicaId, ttl: Duration.Duration) => Effect.Effect<Renewal, StorageError>
    /** Releases the lease if it still has this fence, and tells the replicas that wait for the session (`LeaseReleased`). */
    readonly release: (session: SessionId, fence: number) => Effect.Effect<void, StorageError>
    /**
     * Records that the replica is shutting down: releases its leases, makes its plans free to be taken over, and tells the other
     * replicas (`PlansLeft`).
     */
    readonly leave: (replica: ReplicaId) => Effect.Effect<void, StorageError>
  }
>()("@bowline/runtime/store/LeaseStore") {}
