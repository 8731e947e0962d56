import { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, Effect, Layer, Schema, type Scope } from "effect"

/** What replicas tell one another. A notice only says where to look; the truth is in the store. */
export const Notice = Schema.TaggedUnion({
  /** A lease was released: a replica that waits for the session may try to acquire it. */
  LeaseReleased: { session_id: SessionId },
  /** A replica has shut down. Others may take over its plans. */
  PlansLeft: {},
  /** A replica has taken over a plan from another one. Replicas that read the plan answer with `Reading`. */
  TakenOver: { plan_id: PlanId },
  /** Somebody asked to abort the plan. */
  AbortRequested: { plan_id: PlanId },
  /** A newer question waits for the session of these plans: each of them ends as soon as nobody reads it. */
  Outdated: { plan_ids: Schema.Array(PlanId) },
  /** Nobody has read the plan since it was parked: whoever has taken it over since awaits no reader. */
  Unread: { plan_id: PlanId },
  /** The plan's inbox has an entry more, or one less, or a wait of the plan has ended. */
  InboxChanged: { plan_id: PlanId },
  /** The client of the plan has come back to `reader`: others no longer read the plan in its place. */
  ClientBack: { reader: Schema.String, plan_id: PlanId },
  /** A webhook has a delivery: the replica that has it may send it. */
  DeliveriesDue: {},
  /** A key of a caller was revoked: what was read of keys may be wrong. */
  KeysChanged: {},
  /** Somebody has made or changed a schedule: it may be due earlier than the replicas have thought. */
  SchedulesChanged: {},
  /** The plan has new events. */
  Advanced: { plan_id: PlanId },
  /** The replica has readers of these plans. It repeats this every 5 s. */
  Reading: { replica: Schema.String, plan_ids: Schema.Array(PlanId) },
  /** The replica no longer has readers of these plans. */
  Left: { replica: Schema.String, plan_ids: Schema.Array(PlanId) }
})

export type Notice = typeof Notice.Type

/** A notice; or `ListeningChanged`: this process has begun or ceased to receive notices, so each subscriber looks for what it missed. */
export type Heard = Notice | { readonly _tag: "ListeningChanged" }

/** The subscribers to notices in this process. */
export class Audience {
  readonly #hearers = new Set<(heard: Heard) => void>()

  readonly tell = (heard: Heard): void => {
    for (const hear of this.#hearers) hear(heard)
  }

  readonly subscribe = (hear: (heard: Heard) => void): Effect.Effect<void, never, Scope.Scope> =>
    Effect.asVoid(
      Effect.acquireRelease(
        Effect.sync(() => this.#hearers.add(hear)),
        () => Effect.sync(() => this.#hearers.delete(hear))
      )
    )
}

/** Messages between replicas. A notice may be lost, so a subscriber also polls the store, as often as `pollAfter` says. */
export class Notices extends Context.Service<
  Notices,
  {
    /** Sends the notices to all replicas, this one included. */
    readonly publish: (notices: ReadonlyArray<Notice>) => Effect.Effect<void, StorageError>
    /** Calls `hear` for each notice until the scope closes. */
    readonly subscribe: (hear: (heard: Heard) => void) => Effect.Effect<void, never, Scope.Scope>
    /** Whether this process receives what others publish. */
    readonly isListening: () => boolean
  }
>()("@bowline/runtime/store/Notices") {
  /** Notices between the users of this layer. */
  static readonly layerMemory = Layer.sync(Notices, () => {
    const { subscribe, tell } = new Audience()
    return {
      publish: (notices) => Effect.sync(() => notices.forEach(tell)),
      subscribe,
      isListening: () => true
    }
  })
}

/** How long to wait for a notice before a poll, in milliseconds. */
export const pollAfter = (notices: Notices["Service"]): number => (notices.isListening() ? 5_000 : 250)
