import { Effect, Latch } from "effect"

/** Where a stream ends before its plan: only a decision is waited for. `look` is called after the frames that were read. */
export interface DecisionPause {
  readonly look: () => void
  readonly reached: Effect.Effect<void>
}

/** How long a decision that is stored may take to arrive after its request: stored frames come page by page. */
const arrivesWithin = "20 millis"

/**
 * Where an answer ends before its plan: only a decision is waited for, which comes in another request. `leave` makes sure that the plan
 * runs on without its reader.
 */
export const make = (waits: () => boolean, leave: Effect.Effect<void>): DecisionPause => {
  const mayWait = Latch.makeUnsafe(false)
  const isWaiting = Effect.map(Effect.andThen(mayWait.await, Effect.sleep(arrivesWithin)), () => {
    mayWait.closeUnsafe()
    return waits()
  })
  return {
    look: () => {
      if (waits()) mayWait.openUnsafe()
    },
    reached: Effect.andThen(Effect.repeat(isWaiting, { until: (waits) => waits }), leave)
  }
}
