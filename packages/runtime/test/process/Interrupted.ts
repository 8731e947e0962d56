import { Array, Effect, Fiber, Scheduler } from "effect"

/** Runs the effect again and again, and interrupts it at each of its first steps in turn: its fiber yields there. */
export const atEachStep = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<void, never, R> =>
  Effect.forEach(
    Array.range(3, 50),
    (steps) =>
      effect.pipe(
        Effect.provideService(Scheduler.MaxOpsBeforeYield, steps),
        Effect.forkChild({ startImmediately: true }),
        Effect.flatMap(Fiber.interrupt)
      ),
    { discard: true }
  )
