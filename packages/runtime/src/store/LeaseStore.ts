import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, type Duration, type Effect, type Option, Data } from "effect"

/** The guard of a write does not hold any more: another replica has the session, or the plan, or it is gone. */
export class LeaseLost extends Data.TaggedError("LeaseLost") {}

/** One process of the gateway: `replica_` and a UUID, new at every start. */
export type ReplicaId = string

/**
 * Who may write which session. A lease is a row with a fencing token and an expiry on the database's clock; the token is
 * the session's `fence`, which grows with every acquisition and is checked with every write of a plan.
 */
export class LeaseStore extends Context.Service<
  LeaseStore,
  {
    /**
     * The new fence, or none while another replica's lease on the session runs, or while a plan of it is `running`: one that was
     * left behind is taken over, and ends, before the next one begins. A lease of the replica itself, which an interrupted
     * request may have left, gives way. Two who ask at once: one gets it. `NotFound` where there is no such session (any more).
     */
    readonly acquire: (
      session: SessionId,
      replica: ReplicaId,
      ttl: Duration.Duration
    ) => Effect.Effect<Option.Option<number>, NotFound | StorageError>
    /**
     * Says that the replica lives and prolongs every lease of it, in one statement: also one that has expired and that nobody
     * has taken since, so that plans outlast a database that was away. Gives the fence of each session that it still holds:
     * what is missing is lost.
     */
    readonly renew: (
      replica: ReplicaId,
      ttl: Duration.Duration
    ) => Effect.Effect<ReadonlyMap<SessionId, number>, StorageError>
    /** Gives the lease back, if it is still the one with this fence, and tells the other replicas (`LeaseReleased`). */
    readonly release: (session: SessionId, fence: number) => Effect.Effect<void, StorageError>
    /**
     * Says that the replica is about to end: its leases are over, and its plans are left to whoever comes next, who is told
     * (`PlansLeft`).
     */
    readonly leave: (replica: ReplicaId) => Effect.Effect<void, StorageError>
  }
>()("@bowline/runtime/store/LeaseStore") {}
