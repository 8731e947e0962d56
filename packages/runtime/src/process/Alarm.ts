import { type Context, Effect } from "effect"

/**
 * Calls `ring` in so many milliseconds, and returns what cancels that. Whoever sets an alarm cancels it: no scope does. A wait that
 * mostly ends before its time costs less so than as a race, or as a fiber of a scope. What `ring` throws is logged, and reaches nobody else.
 */
export const set = (ms: number, ring: () => void, context: Context.Context<never>): (() => void) => {
  const waiting = Effect.andThen(Effect.sleep(ms), Effect.sync(ring)).pipe(
    Effect.catchDefect((bug) => Effect.logError("alarm_failed", bug)),
    Effect.runForkWith(context)
  )
  return () => waiting.interruptUnsafe()
}
