import type { PlanId } from "@bowline/domain/plan/Plan"
import { Array, Context, Effect, Latch, Layer, type Scope } from "effect"
import { SessionLock } from "../lock/SessionLock.ts"
import { type Notice, Notices, pollAfter } from "../store/Notices.ts"

/** How often the other replicas are told which plans are read here. */
const renewal = "5 seconds"

/** The ids in one notice: Postgres accepts less than 8,000 bytes. */
const maxPlans = 100

export interface RemotePlan {
  /** Waits until there may be something new in the store. */
  readonly news: Effect.Effect<void>
  /** Whether readers in this process must stop waiting. */
  readonly isClosed: () => boolean
}

/** The plans that other replicas run and that are read here. The replicas are told, so that these readers count, too. */
export class RemotePlans extends Context.Service<
  RemotePlans,
  {
    /** A reader of the plan until the scope closes. */
    readonly connect: (id: PlanId) => Effect.Effect<RemotePlan, never, Scope.Scope>
    /** Ends all waits here, now and from now on. */
    readonly close: Effect.Effect<void>
  }
>()("@bowline/runtime/stream/RemotePlans") {
  static readonly layer = Layer.effect(
    RemotePlans,
    Effect.gen(function* () {
      const notices = yield* Notices
      const { replica } = yield* SessionLock
      const read = new Map<PlanId, Set<Latch.Latch>>()
      const unsaid = new Set<PlanId>()
      const pending = Latch.makeUnsafe(false)
      let isClosed = false
      const say = (ids: Iterable<PlanId>) => {
        for (const id of ids) unsaid.add(id)
        pending.openUnsafe()
      }
      const wake = (latches: Iterable<Latch.Latch> = []) => {
        for (const latch of latches) latch.openUnsafe()
      }
      const wakeAll = () => {
        for (const latches of read.values()) wake(latches)
      }

      yield* notices.subscribe((heard) => {
        if (heard._tag === "Advanced") wake(read.get(heard.plan_id))
        if (heard._tag === "TakenOver" && read.has(heard.plan_id)) say([heard.plan_id])
        if (heard._tag === "ListeningChanged") wakeAll()
      })

      // One after the other, so that the notices keep the order in which readers come and go.
      yield* Effect.gen(function* () {
        yield* pending.await
        pending.closeUnsafe()
        const ids = Array.fromIterable(unsaid)
        unsaid.clear()
        const toNotices = (_tag: "Left" | "Reading") => {
          const plans = ids.filter((id) => read.has(id) === (_tag === "Reading"))
          return Array.map(Array.chunksOf(plans, maxPlans), (plan_ids): Notice => ({ _tag, replica, plan_ids }))
        }
        const said = [...toNotices("Left"), ...toNotices("Reading")]
        if (said.length > 0) yield* Effect.ignore(notices.publish(said))
      }).pipe(Effect.forever, Effect.forkScoped)
      yield* Effect.sync(() => say(read.keys())).pipe(Effect.delay(renewal), Effect.forever, Effect.forkScoped)

      return {
        connect: Effect.fnUntraced(function* (id) {
          const latch = Latch.makeUnsafe(false)
          yield* Effect.acquireRelease(
            Effect.sync(() => {
              const latches = read.get(id)
              if (latches !== undefined) return latches.add(latch)
              read.set(id, new Set([latch]))
              return say([id])
            }),
            () =>
              Effect.sync(() => {
                const latches = read.get(id)
                latches?.delete(latch)
                if (latches?.size !== 0) return
                read.delete(id)
                say([id])
              })
          )
          return {
            news: Effect.suspend(() => Effect.timeoutOption(latch.await, pollAfter(notices))).pipe(
              // Closed before the reader looks, so that later news wakes it again.
              Effect.andThen(Effect.sync(() => latch.closeUnsafe()))
            ),
            isClosed: () => isClosed
          }
        }),
        close: Effect.sync(() => {
          isClosed = true
          wakeAll()
        })
      }
    })
  )
}
