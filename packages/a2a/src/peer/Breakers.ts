import { CircuitOpen, PeerError } from "@bowline/domain/peer/PeerError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { LruCache } from "@bowline/runtime/unstable/process/LruCache"
import type { PeerEvent, PeerStatus } from "@bowline/runtime/remote/PeerClient"
import { Cause, Clock, Context, Duration, Effect, Exit, Layer, Option, Schedule } from "effect"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import { maxPeers } from "../card/AgentCard.ts"
import * as BreakerStore from "./BreakerStore.ts"

type OnEvent = (event: PeerEvent) => Effect.Effect<void>

/** How long a circuit stays open: 30 seconds, and twice as long each time that a probe fails, 5 minutes at most. */
const openDuration = Schedule.min([Schedule.exponential("30 seconds"), Schedule.spaced("5 minutes")])

/** When to come back while a probe runs: its result is there soon. */
const probeMs = 1_000

/** What a call says about its peer. A call that was never sent says nothing. A peer that answers is alive. */
const classify = (exit: Exit.Exit<unknown, PeerError>): CircuitBreaker.Outcome => {
  if (Exit.isSuccess(exit)) return CircuitBreaker.success
  const error = Cause.findErrorOption(exit.cause)
  if (Option.isNone(error)) return CircuitBreaker.ignored
  const { reason } = error.value
  switch (reason._tag) {
    case "unreachable":
      return CircuitBreaker.failure()
    case "http":
      return reason.status >= 500 ? CircuitBreaker.failure() : CircuitBreaker.success
    case "auth":
      return reason.status === undefined ? CircuitBreaker.ignored : CircuitBreaker.success
    case "account_required":
    case "egress_denied":
    case "circuit_open":
      return CircuitBreaker.ignored
    default:
      return CircuitBreaker.success
  }
}

const why = "Too many calls of the peer have failed in a row"

const openUntil = (retryAfter: Duration.Duration, now: number): CircuitOpen => {
  const retryAfterMs = Duration.toMillis(retryAfter)
  return new CircuitOpen({ message: `${why}: none is made until ${fromMillis(now + retryAfterMs)}`, retryAfterMs })
}

const refusal = (reason: CircuitBreaker.CircuitBreakerErrorReason, now: number): CircuitOpen =>
  reason._tag === "CircuitOpen"
    ? openUntil(reason.retryAfter, now)
    : new CircuitOpen({ message: `${why}: one call is trying it now`, retryAfterMs: probeMs })

const statusOf = (state: CircuitBreaker.State, now: number): PeerStatus["breaker"] => {
  if (state._tag === "Closed") return { state: "closed", openUntil: null }
  const remaining = state._tag === "Open" ? Duration.toMillis(state.retryAfter) : 0
  // The time is over: the next call is the probe.
  return remaining === 0 ? { state: "half-open", openUntil: null } : { state: "open", openUntil: now + remaining }
}

/**
 * A circuit breaker for each endpoint, in this process: 5 calls in a row that end unreachable or in 5xx within 60 s open it.
 *
 *     closed ──5 failures in 60 s──▶ open ──its time is over, and a call comes──▶ half-open
 *       ▲                             ▲                                              │ │
 *       │                             └──────────────the probe fails─────────────────┘ │
 *       └───────────────────────────the peer answers the probe─────────────────────────┘
 */
export const make = Effect.gen(function* () {
  const memory = yield* Layer.build(CircuitBreaker.layerStoreMemory())
  const store = BreakerStore.make(Context.get(memory, CircuitBreaker.CircuitBreakerStore))
  const breaker = yield* CircuitBreaker.make({ tripPolicy: BreakerStore.tripPolicy, openDuration }).pipe(
    Effect.provideService(CircuitBreaker.CircuitBreakerStore, store)
  )
  const called = new LruCache<string, true>(maxPeers)

  return {
    /**
     * Makes a call, unless the circuit of its endpoint is open: then nothing is sent. A call that resumes a task is never
     * refused.
     */
    guard: <A>(
      endpoint: string,
      onEvent: OnEvent,
      call: (onEvent: OnEvent) => Effect.Effect<A, PeerError>,
      resumes = false
    ): Effect.Effect<A, PeerError> =>
      Effect.suspend(() => {
        called.set(endpoint, true)
        // The ids of a task are not an answer: they may be told before anything is sent.
        const observed = call((event) =>
          event._tag === "Accepted" ? onEvent(event) : Effect.andThen(store.answered(endpoint), onEvent(event))
        )
        return breaker
          .execute(observed, { key: endpoint, classify })
          .pipe(
            Effect.catchTag("CircuitBreakerError", ({ reason }) =>
              resumes
                ? observed
                : Effect.flatMap(Clock.currentTimeMillis, (now) =>
                    Effect.fail(new PeerError({ reason: refusal(reason, now) }))
                  )
            )
          )
      }),
    /** Why a call of the endpoint would be refused now, if it would. Asking is neither counted nor a probe. */
    refusal: (endpoint: string): Effect.Effect<CircuitOpen | undefined> =>
      Effect.zipWith(Effect.orDie(breaker.state(endpoint)), Clock.currentTimeMillis, (state, now) =>
        state._tag === "Open" && Duration.isPositive(state.retryAfter) ? openUntil(state.retryAfter, now) : undefined
      ),
    /** The endpoints that were called, and the states of their circuits. */
    all: Effect.suspend(() =>
      Effect.forEach(called.keys, (endpoint) =>
        Effect.zipWith(Effect.orDie(breaker.state(endpoint)), Clock.currentTimeMillis, (state, now) => ({
          endpoint,
          breaker: statusOf(state, now)
        }))
      )
    )
  }
})
