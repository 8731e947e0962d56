import type { PlanId } from "@bowline/domain/plan/Plan"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { Asked, Plans } from "@bowline/runtime/plan/Plans"
import type { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { type Idempotency, idempotency } from "@bowline/runtime/unstable/store/Idempotency"
import type { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { Clock, Effect, Option } from "effect"

interface Services {
  readonly plans: Plans["Service"]
  readonly streams: PlanStreams["Service"]
  readonly store: PlanStore["Service"]
}

/** What an SDK says of a request that it may send again: how often it has sent it before, in the text of a header. */
export interface Tried {
  readonly count: string | undefined
  readonly body: unknown
  readonly session: string | undefined
}

/** How long after its first try a request may join the plan of that. */
const windowMs = 60_000

/** How many requests with one body get a place in a window. More than one of them is as good as none: see `join`. */
const places = 4

type Key = (window: number, place: number) => Idempotency

/** Keys that no caller can send: an `Idempotency-Key` has no line break. */
const keysOf = ({ body, session }: Tried): Key => {
  const { body: digest } = idempotency("first try", { body, session: session ?? null })
  return (window, place) => idempotency(`first try\n${window}\n${place}\n${digest}`, null)
}

/**
 * Starts plans of SDKs, which send a request again when they have lost its answer. Each plan has a place under the body of its request, for
 * a minute; a later try joins the plan that is there. If there are several, nobody can tell whose the later try is: then it joins
 * none, since two callers with the same transcript must not meet. Neither does it join a plan that its caller has left.
 */
export const make = ({ plans, store, streams }: Services) => {
  const windowAt = (now: number): number => Math.floor(now / windowMs)

  /** Starts a plan in the first place that is free, or without one. */
  const begin = (asked: Asked, key: Key, window: number, place = 0): ReturnType<typeof streams.start> =>
    place === places
      ? streams.start(asked)
      : Effect.catchTag(
          streams.start({ ...asked, idempotency: key(window, place), joins: false }),
          "IdempotencyConflict",
          () => begin(asked, key, window, place + 1)
        )

  /** The plan of the first try, if it is the only one, and was not left. */
  const find = Effect.fnUntraced(function* ({ caller }: Asked, key: Key, now: number) {
    const found: Array<PlanId> = []
    for (const window of [windowAt(now) - 1, windowAt(now)]) {
      for (let place = 0; place < places; place++) {
        const id = yield* store.findByKey(caller, key(window, place), fromMillis(now))
        if (Option.isNone(id)) break
        const { created_at, error } = yield* plans.get(caller, id.value)
        if (error?.reason !== "disconnect" && Date.parse(created_at) >= now - windowMs) found.push(id.value)
      }
    }
    return found.length === 1 ? found[0] : undefined
  })

  const join = Effect.fnUntraced(function* (asked: Asked, key: Key, now: number) {
    const id = yield* find(asked, key, now)
    return id === undefined ? yield* begin(asked, key, windowAt(now)) : yield* streams.read(asked.caller, id, 0)
  })

  return {
    start: (asked: Asked, tried: Tried): ReturnType<typeof streams.start> => {
      // Neither a client that does not count its tries, nor one that names its requests.
      if (!/^\d{1,3}$/.test(tried.count ?? "") || asked.idempotency !== undefined) return streams.start(asked)
      const key = keysOf(tried)
      return Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const fresh = begin(asked, key, windowAt(now))
        // The session of the plan that was found may have been deleted meanwhile.
        return Number(tried.count) === 0 ? fresh : Effect.catchTag(join(asked, key, now), "NotFound", () => fresh)
      })
    }
  }
}
