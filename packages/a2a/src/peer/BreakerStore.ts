import * as UrlSecrets from "@bowline/runtime/unstable/egress/UrlSecrets"
import { Clock, Duration, Effect } from "effect"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import { failed, type FailureStreak, isStale, isTooMany } from "./FailureStreak.ts"

type Store = CircuitBreaker.CircuitBreakerStore["Service"]
type Transition = CircuitBreaker.Transition

/** Opens at the first failure that it counts. The store decides which failures count. */
export const tripPolicy = CircuitBreaker.consecutive(1)

const log = (transition: Transition | undefined): Effect.Effect<void> => {
  if (transition === undefined) return Effect.void
  const { key, to } = transition
  const endpoint = UrlSecrets.without(key)
  const name = to === "Closed" ? "peer_circuit_closed" : "peer_circuit_half_open"
  if (to !== "Open") return Effect.annotateLogs(Effect.logInfo(name), { endpoint })
  return Effect.annotateLogs(Effect.logWarning("peer_circuit_open"), {
    endpoint,
    open_ms: Duration.toMillis(transition.retryAfter)
  })
}

/**
 * A store in which only the fifth failure in a row within 60 s counts: the library's policies know no time. It logs every
 * transition. `answered` ends a probe with success as soon as the peer answers, however long its task then takes.
 */
export const make = (inner: Store): Store & { readonly answered: (key: string) => Effect.Effect<void> } => {
  const streaks = new Map<string, FailureStreak>()
  /** The generations of the running probes. */
  const probes = new Map<string, number>()

  const isCounted = (key: string, generation: number, now: number): boolean => {
    const streak = failed(streaks.get(key), generation, now)
    streaks.delete(key)
    if (isTooMany(streak)) return true
    streaks.set(key, streak)
    // The streak with the oldest last failure comes first.
    for (const [other, oldest] of streaks) {
      if (!isStale(oldest, now)) break
      streaks.delete(other)
    }
    return false
  }

  return {
    state: inner.state,
    admit: (key) =>
      Effect.tap(inner.admit(key), ({ generation, probe, transition }) => {
        if (probe) probes.set(key, generation)
        return log(transition)
      }),
    record: Effect.fnUntraced(function* (given) {
      const { generation, key, outcome } = given
      const isProbe = probes.get(key) === generation
      if (isProbe) probes.delete(key)
      const now = yield* Clock.currentTimeMillis
      if (outcome === "Success") streaks.delete(key)
      const counts = isProbe || outcome !== "Failure" || isCounted(key, generation, now)
      const transition = yield* inner.record(counts ? given : { ...given, outcome: "Ignored" })
      yield* log(transition)
      return transition
    }),
    answered: (key) =>
      Effect.suspend(() => {
        const generation = probes.get(key)
        if (generation === undefined) return Effect.void
        probes.delete(key)
        return inner
          .record({ key, generation, outcome: "Success", tripPolicy, openFor: Duration.zero })
          .pipe(Effect.flatMap(log), Effect.orDie)
      })
  }
}
