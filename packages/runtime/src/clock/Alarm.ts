import { type Context, Effect, Exit } from "effect"

/**
 * Calls `ring` in so many milliseconds, and returns what cancels that. Whoever sets an alarm cancels it: no scope does. A wait that
 * mostly ends before its time costs less so than as a race, or as a fiber of a scope.
 */
export const set = (ms: number, ring: () => void, context: Context.Context<never>): (() => void) => {
  const sleeping = Effect.runForkWith(context)(Effect.sleep(ms))
  sleeping.addObserver((exit) => {
    if (Exit.isSuccess(exit)) ring()
  })
  return () => sleeping.interruptUnsafe()
}
