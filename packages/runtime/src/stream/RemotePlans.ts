import type { PlanId } from "@bowline/domain/plan/Plan"
import { Array, Context, type Duration, Effect, Latch, Layer, type Scope } from "effect"
import { SessionLock } from "../lock/SessionLock.ts"
import type { ReplicaId } from "../store/LeaseStore.ts"
import { type Heard, type Notice, Notices, pollAfter } from "../store/Notices.ts"

/** How often the other replicas are told which plans are read here. */
const renewal = "5 seconds"

/** How long a replica may take to say so again. */
const repeatedWithin = "6 seconds"

/** The ids in one notice: Postgres accepts less than 8,000 bytes. */
const maxPlans = 100

export interface RemotePlan {
  /** Waits until there may be something new in the store. */
  readonly news: Effect.Effect<void>
  /** Whether readers in this process must stop waiting. */
  readonly isClosed: () => boolean
}

/** The readers of this process, a latch for each, and what the other replicas have yet to be told about them. */
class Readers {
  readonly #latches = new Map<PlanId, Set<Latch.Latch>>()
  readonly #unsaid = new Set<PlanId>()
  /** Who asks here whether other replicas read a plan, and whether one has said so since. */
  readonly #asking = new Set<{ readonly id: PlanId; isRead: boolean }>()
  readonly #pending = Latch.makeUnsafe(false)
  /** Another replica has said that it reads a plan, whichever. */
  hasHeard = false

  add(id: PlanId): Latch.Latch {
    const latch = Latch.makeUnsafe(false)
    const latches = this.#latches.get(id)
    latches?.add(latch)
    if (latches === undefined) {
      this.#latches.set(id, new Set([latch]))
      this.#say([id])
    }
    return latch
  }

  remove(id: PlanId, latch: Latch.Latch): void {
    const latches = this.#latches.get(id)
    latches?.delete(latch)
    if (latches?.size !== 0) return
    this.#latches.delete(id)
    this.#say([id])
  }

  has(id: PlanId): boolean {
    return this.#latches.has(id)
  }

  /** Whether another replica says within this time that it has a reader of the plan. */
  isReadElsewhere(id: PlanId, within: Duration.Input): Effect.Effect<boolean> {
    return Effect.suspend(() => {
      const asked = { id, isRead: false }
      this.#asking.add(asked)
      return Effect.map(Effect.sleep(within), () => asked.isRead).pipe(
        Effect.ensuring(Effect.sync(() => this.#asking.delete(asked)))
      )
    })
  }

  hear(heard: Heard, own: ReplicaId): void {
    if (heard._tag === "Reading" && heard.replica !== own) {
      this.hasHeard = true
      for (const asked of this.#asking) asked.isRead ||= heard.plan_ids.includes(asked.id)
    }
    if (heard._tag === "Advanced") wake(this.#latches.get(heard.plan_id))
    if (heard._tag === "TakenOver" && this.#latches.has(heard.plan_id)) this.#say([heard.plan_id])
    if (heard._tag === "ListeningChanged") this.wakeAll()
  }

  wakeAll(): void {
    for (const latches of this.#latches.values()) wake(latches)
  }

  /** Tells the other replicas again which plans are read here. */
  repeat(): void {
    this.#say(this.#latches.keys())
  }

  /** Waits until there is something to tell the other replicas, and gives the notices that tell it. */
  readonly changes = Effect.fnUntraced(function* (this: Readers, replica: ReplicaId) {
    yield* this.#pending.await
    this.#pending.closeUnsafe()
    const ids = Array.fromIterable(this.#unsaid)
    this.#unsaid.clear()
    const toNotices = (_tag: "Left" | "Reading") => {
      const plans = ids.filter((id) => this.#latches.has(id) === (_tag === "Reading"))
      return Array.map(Array.chunksOf(plans, maxPlans), (plan_ids): Notice => ({ _tag, replica, plan_ids }))
    }
    return [...toNotices("Left"), ...toNotices("Reading")]
  })

  #say(ids: Iterable<PlanId>): void {
    for (const id of ids) this.#unsaid.add(id)
    this.#pending.openUnsafe()
  }
}

const wake = (latches: Iterable<Latch.Latch> = []): void => {
  for (const latch of latches) latch.openUnsafe()
}

/** The plans that other replicas run and that are read here. The replicas are told, so that these readers count, too. */
export class RemotePlans extends Context.Service<
  RemotePlans,
  {
    /** A reader of the plan until the scope closes. */
    readonly connect: (id: PlanId) => Effect.Effect<RemotePlan, never, Scope.Scope>
    /**
     * Waits for the grace, and then until it is known that nobody reads the plan: gives `false` if somebody reads it here. Other replicas say every 5 s what
     * they read; one that is alone does not wait for them.
     */
    readonly unread: (id: PlanId, grace: Duration.Input) => Effect.Effect<boolean>
    /** Ends all waits here, now and from now on. */
    readonly close: Effect.Effect<void>
  }
>()("@bowline/runtime/stream/RemotePlans") {
  static readonly layer = Layer.effect(
    RemotePlans,
    Effect.gen(function* () {
      const notices = yield* Notices
      const { duties, replica } = yield* SessionLock
      const readers = new Readers()
      let isClosed = false

      yield* notices.subscribe((heard) => readers.hear(heard, replica))
      // One after the other, so that the notices keep the order in which readers come and go.
      yield* Effect.gen(function* () {
        const said = yield* readers.changes(replica)
        if (said.length > 0) yield* Effect.ignore(notices.publish(said))
      }).pipe(
        Effect.catchCause((cause) => Effect.logError("reading_notices_failed", cause)),
        Effect.forever,
        Effect.forkScoped
      )
      yield* Effect.sync(() => readers.repeat()).pipe(Effect.delay(renewal), Effect.forever, Effect.forkScoped)

      return {
        connect: Effect.fnUntraced(function* (id) {
          const latch = yield* Effect.acquireRelease(
            Effect.sync(() => readers.add(id)),
            (latch) => Effect.sync(() => readers.remove(id, latch))
          )
          return {
            news: Effect.suspend(() => Effect.timeoutOption(latch.await, pollAfter(notices))).pipe(
              // Closed before the reader looks, so that later news wakes it again.
              Effect.andThen(Effect.sync(() => latch.closeUnsafe()))
            ),
            isClosed: () => isClosed
          }
        }),
        unread: Effect.fnUntraced(function* (id, grace) {
          yield* Effect.sleep(grace)
          while (!isClosed && !readers.has(id)) {
            // Of one that has just started the store may not have told yet.
            if (duties().others === 0 && !readers.hasHeard) return true
            const isRead = yield* readers.isReadElsewhere(id, repeatedWithin)
            if (!isRead && notices.isListening() && !readers.has(id)) return true
          }
          return false
        }),
        close: Effect.sync(() => {
          isClosed = true
          readers.wakeAll()
        })
      }
    })
  )
}
