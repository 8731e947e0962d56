import { Effect, Latch } from "effect"

/** Where a stream ends before its plan: only the client is waited for. `look` is called after the frames that were read. */
export interface DecisionPause {
  readonly look: () => void
  readonly reached: Effect.Effect<void>
}

/** How long what the client has brought may take to arrive after its request: stored frames come page by page. */
const arrivesWithin = "20 millis"

/** How long a call that has not told yet that it has begun may run until it is asked after again. */
const asksEvery = "250 millis"

/**
 * Where an answer ends before its plan: only something is waited for that comes in another request. `isIdle` says whether the frames that
 * were read are all that there is to tell. `leave` makes sure that the plan runs on without its reader.
 */
export const make = (
  waits: () => boolean,
  leave: Effect.Effect<void>,
  isIdle: Effect.Effect<boolean> = Effect.succeed(true)
): DecisionPause => {
  const mayWait = Latch.makeUnsafe(false)
  const isWaiting = Effect.gen(function* () {
    yield* mayWait.await
    yield* Effect.sleep(arrivesWithin)
    mayWait.closeUnsafe()
    while (waits()) {
      if (yield* isIdle) return waits()
      yield* Effect.sleep(asksEvery)
    }
    return false
  })
  return {
    look: () => {
      if (waits()) mayWait.openUnsafe()
    },
    reached: Effect.andThen(Effect.repeat(isWaiting, { until: (waits) => waits }), leave)
  }
}
