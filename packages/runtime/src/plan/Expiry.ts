import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect, Layer, Schedule } from "effect"
import { SessionStore } from "../store/SessionStore.ts"

/** Between two sweeps, and between the batches of one: plans come first. */
const interval = "1 minute"
const pause = "100 millis"

/** Deletes sessions, idempotency keys and known tools that have expired, and what deletions have left: at the start, and then every minute, in small batches. */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sessions = yield* SessionStore
    const batch = Effect.flatMap(Clock.currentTimeMillis, (now) => sessions.sweep(fromMillis(now)))
    yield* batch.pipe(
      Effect.repeat({ while: (isMore) => isMore, schedule: Schedule.spaced(pause) }),
      Effect.catchCause((cause) => Effect.logWarning("expiry_failed", cause)),
      Effect.repeat(Schedule.spaced(interval)),
      Effect.forkScoped
    )
  })
)
