import { Effect, Scope } from "effect"

/**
 * Takes something, and releases it when the scope closes. This is `Effect.acquireRelease` for a release that needs no services: that
 * one merges its context, of some fifty entries, into the fiber's at each release, and a plan has half a dozen of them.
 */
export const claim = <A, E, R>(
  take: Effect.Effect<A, E, R>,
  release: (taken: A) => Effect.Effect<void>
): Effect.Effect<A, E, R | Scope.Scope> =>
  // Not interrupted between the two: what is taken would never be released.
  Effect.uninterruptible(
    Effect.flatMap(Effect.scope, (scope) =>
      Effect.tap(take, (taken) =>
        Scope.addFinalizer(
          scope,
          Effect.suspend(() => release(taken))
        )
      )
    )
  )
