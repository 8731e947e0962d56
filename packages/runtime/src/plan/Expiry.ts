import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { type Cause, Clock, Effect, Layer, Schedule } from "effect"
import { CallerTokens } from "../auth/CallerTokens.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import { FileStore } from "../store/FileStore.ts"
import { InboxStore } from "../store/InboxStore.ts"
import { type Notice, Notices } from "../store/Notices.ts"
import { PlanStore } from "../store/PlanStore.ts"
import { SessionStore } from "../store/SessionStore.ts"
import * as PlanMetrics from "../telemetry/PlanMetrics.ts"

/** Between two sweeps, and between the batches of one: plans come first. */
const interval = "1 minute"
const pause = "100 millis"

/** How late the end of a wait may be. */
const waitsEndWithin = "1 second"

/**
 * Deletes sessions, idempotency keys, known tools and files that have expired, and what deletions have left: at the start, and then every minute, in small batches.
 * The oldest replica also seals the plans that ended and that their processes did not seal, deletes events that are kept no longer, counts the parked
 * plans, and wakes what dead processes have not.
 */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sessions = yield* SessionStore
    const plans = yield* PlanStore
    const files = yield* FileStore
    const lock = yield* SessionLock
    const { tellLeft } = yield* CallerTokens
    const batch = Effect.gen(function* () {
      const now = fromMillis(yield* Clock.currentTimeMillis)
      const [sessionsLeft, filesLeft] = yield* Effect.all([sessions.sweep(now), files.sweep(now)])
      const isMore = sessionsLeft || filesLeft
      return (lock.duties().isOldest && (yield* plans.sealLeft(now))) || isMore
    })
    const look = Effect.gen(function* () {
      const { isOldest } = lock.duties()
      yield* PlanMetrics.parked.update(isOldest ? yield* plans.parked : 0, {})
      if (isOldest) yield* tellLeft
    })
    yield* batch.pipe(
      Effect.repeat({ while: (isMore) => isMore, schedule: Schedule.spaced(pause) }),
      Effect.andThen(look),
      Effect.catchCause((cause) => Effect.logWarning("expiry_failed", cause)),
      Effect.repeat(Schedule.spaced(interval)),
      Effect.forkScoped
    )
  })
)

/**
 * Ends waits whose time is over, for all replicas: the oldest one does that. If it dies, the next one learns with its renewal that it is the oldest.
 * Two that believe so do no harm.
 */
export const layerWaits = Layer.effectDiscard(
  Effect.gen(function* () {
    const inboxes = yield* InboxStore
    const notices = yield* Notices
    const lock = yield* SessionLock
    let isFailing = false
    const end = Effect.gen(function* () {
      if (!lock.duties().isOldest || lock.isOverdue()) return false
      const { isMore, isWaking, plans } = yield* inboxes.expire
      isFailing = false
      // A notice that is lost only delays the plan.
      const told = plans.map((plan_id): Notice => ({ _tag: "InboxChanged", plan_id }))
      if (told.length > 0) yield* Effect.ignore(notices.publish(isWaking ? [...told, { _tag: "PlansLeft" }] : told))
      return isMore
    })
    /** Warns once for each loss of the database. */
    const warn = (cause: Cause.Cause<unknown>) =>
      Effect.suspend(() => {
        const isNews = !isFailing
        isFailing = true
        return isNews ? Effect.logWarning("expiry_failed", cause) : Effect.void
      })
    yield* end.pipe(
      Effect.repeat({ while: (isMore) => isMore }),
      Effect.catchCause(warn),
      Effect.repeat(Schedule.spaced(waitsEndWithin)),
      Effect.forkScoped
    )
  })
)
