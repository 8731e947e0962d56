import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, type Plan, type PlanId } from "@bowline/domain/plan/Plan"
import {
  type EntryRefused,
  EventsExpired,
  type HopsExceeded,
  IdempotencyConflict,
  InvalidRequest,
  type NotAccepting,
  type NotFound,
  type SessionBusy
} from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Context, type Duration, Effect, Layer, Option, Schema, type Scope, Stream } from "effect"
import { PlansConfig } from "../config/PlansConfig.ts"
import { PlanStore } from "../store/PlanStore.ts"
import type { Reading } from "../stream/LivePlan.ts"
import { type PlanReading, readFrom } from "../stream/PlanFollower.ts"
import { RemotePlans } from "../stream/RemotePlans.ts"
import * as StoredFrames from "../stream/StoredFrames.ts"
import { type Asked, NewPlans } from "./NewPlans.ts"
import type { RunningPlan } from "./RunningPlans.ts"
import * as Steering from "./Steering.ts"
import * as UnreadPlans from "./UnreadPlans.ts"

const decodeGrace = Schema.decodeUnknownOption(
  Schema.Struct({ preferences: Schema.Struct({ disconnect_grace_ms: Schema.Finite }) })
)

/** What its request says of a reader that disconnects. */
const graceOf = ({ request }: Pick<Plan, "request">): number | undefined =>
  Option.getOrUndefined(decodeGrace(request))?.preferences.disconnect_grace_ms

/**
 * Plans as streams of frames for the edges that write them to connections. Next to the frames come pings and requests to come
 * back, and the time at which a slow connection is to be closed. An app reads the events of `Plans`.
 */
export class PlanStreams extends Context.Service<
  PlanStreams,
  {
    /**
     * Checks the request, stores the plan and starts it in a fiber of its own. The caller is its first reader until the scope
     * closes: with `on_disconnect: "cancel"` the plan is aborted when its last reader disconnects. If the idempotency key stands
     * for a plan already, the caller becomes one more reader of that plan, from its first frame on, wherever it runs and also
     * when it is over. A refused request leaves no key behind. With `on_busy: "steer"` a plan of the session that is not over hears the
     * question, and the caller reads it from there.
     */
    readonly start: (
      asked: Asked
    ) => Effect.Effect<
      PlanReading,
      | InvalidRequest
      | EntryRefused
      | EventsExpired
      | HopsExceeded
      | SessionBusy
      | IdempotencyConflict
      | NotAccepting
      | StorageError,
      Scope.Scope
    >
    /** Refuses what `start` refuses before it looks at what is stored: for a caller that drops something before it asks. */
    readonly check: (asked: Asked) => Effect.Effect<void, InvalidRequest | HopsExceeded | NotAccepting>
    /**
     * The frames of the plan after the seq `after` (0: from the start), live to the end. A cursor past the last frame is invalid; at the
     * end of a plan that is over there is nothing to read. Fails with `EventsExpired` if it ended longer ago than its events are kept. The caller is a reader until the scope closes. `leaveRunning` does nothing for
     * a plan of another replica.
     */
    readonly read: (
      caller: CallerName,
      id: PlanId,
      after: number
    ) => Effect.Effect<PlanReading, NotFound | InvalidRequest | EventsExpired | StorageError, Scope.Scope>
  }
>()("@bowline/runtime/plan/PlanStreams") {
  static readonly layer = Layer.effect(
    PlanStreams,
    Effect.gen(function* () {
      const newPlans = yield* NewPlans
      const store = yield* PlanStore
      const remote = yield* RemotePlans
      const steering = yield* Steering.make
      const { streamGrace } = yield* PlansConfig
      const endUnread = yield* UnreadPlans.make

      /** The frames after the seq `after` of a plan that nobody runs here. */
      const follow = Effect.fnUntraced(function* (plan_id: PlanId, after: number, grace: Duration.Input) {
        let isOver = false
        yield* Effect.addFinalizer(() => (isOver ? Effect.void : endUnread(plan_id, grace)))
        const frames = StoredFrames.follow(store, plan_id, after, yield* remote.connect(plan_id))
        return Stream.onEnd(
          frames,
          Effect.sync(() => void (isOver = true))
        )
      })

      /** The frames after the seq `after` of a plan that runs here: first those that are there, then those that come. */
      const attach = Effect.fnUntraced(function* ({ live, run }: RunningPlan, after: number) {
        const { plan_id, session_id } = run.given
        const { cutOff, frames: told, head, isParked, ...attached } = yield* live.attach(after)
        const parked = Stream.suspend(() =>
          isParked()
            ? Stream.unwrap(Effect.andThen(store.reading(plan_id), follow(plan_id, live.head, grace)))
            : Stream.empty
        )
        const { disconnect_grace_ms: grace = streamGrace } = run.given.request.preferences
        const frames = Stream.concat(told, parked)
        const connect: Reading["connect"] = (close) => {
          const disconnect = attached.connect(close)
          // A peer may be about to name the task that it is to cancel: only what waits for a provider ends at once.
          return () => (run.connections.size > 0 ? disconnect() : undefined)
        }
        const reader = { ...attached, connect }
        if (head === after) return { plan_id, session_id, frames, ...reader }
        yield* store.reading(plan_id)
        const all = Stream.concat(StoredFrames.between(store, plan_id, after, head), frames).pipe(
          Stream.catchTag("StorageError", () => Stream.fromEffect(Effect.as(cutOff, "reconnect" as const)))
        )
        return { plan_id, session_id, frames: all, ...reader }
      })

      const read = Effect.fnUntraced(function* (caller: CallerName, plan_id: PlanId, after: number) {
        const stored = yield* store.get(caller, plan_id)
        const plan = yield* newPlans.find(plan_id)
        const [last] = after === 0 ? [] : yield* store.events(plan_id, after - 1, 1)
        if (plan === undefined && isSettled(stored) && last === undefined) {
          // A plan has one event from its creation on.
          const [first] = yield* store.events(plan_id, 0, 1)
          if (first === undefined) {
            // Its session may have been deleted since it was found.
            yield* store.get(caller, plan_id)
            return yield* new EventsExpired({ plan_id })
          }
        }
        if (after > 0 && last === undefined) {
          return yield* new InvalidRequest({
            issues: [{ path: ["Last-Event-ID"], message: "Expected no more than the last seq of the plan" }]
          })
        }
        // What a plan that has left this process has told here comes first: then no look at the store has to find it.
        if (plan !== undefined && !(plan.live.isLeft && plan.live.head <= after)) return yield* attach(plan, after)
        yield* store.reading(plan_id)
        const frames = isSettled(stored)
          ? StoredFrames.follow(store, plan_id, after, undefined)
          : yield* follow(plan_id, after, graceOf(stored) ?? streamGrace)
        const ids = { plan_id, session_id: stored.session_id }
        const isHere = () => false
        return { ...ids, frames, isHere, connect: () => () => {}, leaveRunning: Effect.void, replaced: Effect.void }
      })

      const startOrJoin = Effect.fnUntraced(function* (asked: Asked) {
        const { caller, idempotency, joins = true } = asked
        if (idempotency !== undefined && joins) {
          const now = fromMillis(yield* Clock.currentTimeMillis)
          const known = yield* store.findByKey(caller, idempotency, now)
          if (Option.isSome(known)) return yield* read(caller, known.value, 0)
        }
        // Not earlier: a request that comes again is not said to the plan that it has started.
        const hearer = yield* steering.find(asked)
        if (hearer !== undefined) {
          // Not later: the plan is never without a reader.
          const reading = yield* read(caller, hearer, 0)
          const said = yield* steering.say(asked, hearer)
          if (said?.plan_id === hearer) return readFrom(reading, said.entry_id)
          if (said !== undefined) return yield* read(caller, said.plan_id, 0)
        }
        return yield* newPlans.start(asked, (plan) => attach(plan, 0))
      })

      const start: PlanStreams["Service"]["start"] = (asked) =>
        startOrJoin(asked).pipe(
          Effect.catchTag(
            "PlanExists",
            Effect.fnUntraced(function* ({ plan_id }) {
              if (asked.joins === false) return yield* new IdempotencyConflict()
              return yield* read(asked.caller, plan_id, 0)
            })
          ),
          // The session of that plan was deleted meanwhile, and the key is free again.
          Effect.catchTag("NotFound", () => start(asked))
        )

      return { start, check: newPlans.check, read }
    })
  )
}
