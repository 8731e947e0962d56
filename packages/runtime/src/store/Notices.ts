import { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { Context, Effect, Layer, Schema, type Scope } from "effect"

/** What replicas tell one another. It says where to look, and is never the truth itself: that is in the store. */
export const Notice = Schema.TaggedUnion({
  /** A lease was given back: whoever waits for the session may ask for it. */
  LeaseReleased: { session_id: SessionId },
  /** A replica has ended, and left its plans to the others. */
  PlansLeft: {},
  /** A replica has taken over a plan of another one: replicas that read the plan answer `Reading`. */
  TakenOver: { plan_id: PlanId },
  /** Somebody wants the plan to end. */
  AbortRequested: { plan_id: PlanId },
  /** Somebody has decided about a call of the plan. */
  ApprovalDecided: { plan_id: PlanId, task_id: TaskId },
  /** The plan has new events. */
  Advanced: { plan_id: PlanId },
  /** The replica has readers of these plans. Said again every 5 s. */
  Reading: { replica: Schema.String, plan_ids: Schema.Array(PlanId) },
  /** It has none any more. */
  Left: { replica: Schema.String, plan_ids: Schema.Array(PlanId) }
})

export type Notice = typeof Notice.Type

/** A notice; or that notices of others are heard from now on, or not any more: then everybody looks for what was missed. */
export type Heard = Notice | { readonly _tag: "ListeningChanged" }

/** Who wants to hear of notices in this process. */
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

/** Word from replica to replica. It may be lost: whoever relies on it looks by himself, too, as often as `pollAfter` says. */
export class Notices extends Context.Service<
  Notices,
  {
    /** Tells all replicas, this one too. */
    readonly publish: (notices: ReadonlyArray<Notice>) => Effect.Effect<void, StorageError>
    /** Until the scope closes. */
    readonly subscribe: (hear: (heard: Heard) => void) => Effect.Effect<void, never, Scope.Scope>
    /** Whether what others publish arrives here. */
    readonly isListening: () => boolean
  }
>()("@bowline/runtime/store/Notices") {
  /** Between those who share this layer. */
  static readonly layerMemory = Layer.sync(Notices, () => {
    const { subscribe, tell } = new Audience()
    return {
      publish: (notices) => Effect.sync(() => notices.forEach(tell)),
      subscribe,
      isListening: () => true
    }
  })
}

/** How long to wait for a notice before one looks. */
export const pollAfter = (notices: Notices["Service"]): number => (notices.isListening() ? 5_000 : 250)
