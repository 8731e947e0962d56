import { Plans } from "@bowline/runtime/plan/Plans"
import type { ReplicaId } from "@bowline/runtime/unstable/store/LeaseStore"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import { type ClaimedTarget, PushStore, type TargetKey, webhookWire } from "@bowline/runtime/unstable/store/PushStore"
import { Context, Effect, FiberMap, Latch, Layer } from "effect"

/** How many targets one replica claims at once, and how long it waits for a notice before it looks again. */
const batch = 100
const interval = "5 seconds"

/** Notifies a target until there is nothing more to tell, as far as is known. */
export type Notify = (claimed: ClaimedTarget) => Effect.Effect<void>

/** What notifies targets: the clients of A2A, and webhooks. */
interface Notifiers {
  task?: Notify
  webhook?: Notify
}

/**
 * The places that this replica notifies, each in a fiber of its own. It claims those of its own that have something to be told, and those of replicas that
 * died.
 */
export class Targets extends Context.Service<
  Targets,
  {
    readonly replica: ReplicaId
    /** Has the targets of a kind notified until the process ends. */
    readonly notifyBy: (kind: keyof Notifiers, notify: Notify) => Effect.Effect<void>
    /** Notifies the target anew: it, or what it is told, has changed. */
    readonly restart: (key: TargetKey) => Effect.Effect<void>
    /** Looks at once whether there is something to tell. */
    readonly look: Effect.Effect<void>
  }
>()("@bowline/gateway/push/Targets") {
  static readonly layer = Layer.effect(
    Targets,
    Effect.gen(function* () {
      const store = yield* PushStore
      const plans = yield* Plans
      const notices = yield* Notices
      const replica = yield* plans.replica
      const wake = Latch.makeUnsafe(false)
      const fibers = yield* FiberMap.make<TargetKey>()
      const notifiers: Notifiers = {}
      yield* notices.subscribe(({ _tag }) => {
        if (_tag === "DeliveriesDue" || _tag === "ListeningChanged") wake.openUnsafe()
      })
      yield* keepNotifying(({ target }) => notifiers[target.wire === webhookWire ? "webhook" : "task"], {
        store,
        plans,
        replica,
        wake,
        fibers
      })
      const look = Effect.sync(() => wake.openUnsafe())
      return {
        replica,
        look,
        notifyBy: (kind, notify) =>
          Effect.andThen(
            Effect.sync(() => (notifiers[kind] = notify)),
            look
          ),
        restart: (key) => Effect.andThen(FiberMap.remove(fibers, key), look)
      }
    })
  )
}

interface Keeping {
  readonly store: Pick<PushStore["Service"], "claim">
  readonly plans: Pick<Plans["Service"], "isDraining">
  readonly replica: ReplicaId
  readonly wake: Latch.Latch
  /** Those that notify a target. One that is claimed again, since other replicas had it meanwhile, takes the place of the former. */
  readonly fibers: FiberMap.FiberMap<TargetKey>
}

/** Claims targets and notifies each in a fiber of its own, until the scope closes. */
export const keepNotifying = Effect.fnUntraced(function* (
  notifierOf: (claimed: ClaimedTarget) => Notify | undefined,
  { fibers, plans, replica, store, wake }: Keeping
) {
  const claim = Effect.gen(function* () {
    if (yield* plans.isDraining) return
    for (const claimed of yield* store.claim(
      replica,
      Array.from(fibers, ([key]) => key),
      batch
    )) {
      const { target, task_id } = claimed
      const notify = notifierOf(claimed)
      if (notify !== undefined) yield* FiberMap.run(fibers, { task_id, id: target.id }, notify(claimed))
    }
  })
  yield* claim.pipe(
    Effect.catchCause((cause) => Effect.logWarning("push_failed", cause)),
    Effect.andThen(Effect.timeoutOption(wake.await, interval)),
    Effect.andThen(Effect.sync(() => wake.closeUnsafe())),
    Effect.forever,
    Effect.forkScoped
  )
})
