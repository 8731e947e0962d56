import type { UiFold } from "@bowline/client/unstable/ui/UiFold"
import { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { FollowedPlan } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect, Schema, type Scope, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import * as DecisionPause from "../../http/DecisionPause.ts"
import * as SseAnswer from "../../http/SseAnswer.ts"

const none: FollowedPlan["frames"] = Stream.empty

interface Telling {
  /** Joins the plan's reader to the connection of its client. */
  readonly join: (plan: FollowedPlan) => SseAnswer.Told
  /** Reads the next plan, which answers what this one could not hear any more, and says where its answer to that ends. */
  readonly follow: (
    plan: PlanId
  ) => Effect.Effect<{ readonly plan: FollowedPlan; readonly until: string | undefined }, StorageError, Scope.Scope>
  readonly fold: UiFold<object>
  /** What follows the last event. */
  readonly tail: string
  /** The calls that the client has decided about, or given the results of, just now. */
  readonly decided: ReadonlySet<string>
  /** Reads the plan after this frame in place of the client, while only a decision is waited for. */
  readonly hold: (plan: PlanId, seen: number) => Effect.Effect<void>
  /** Whether no call runs that has not told yet that it has begun. */
  readonly isIdle: (plan: PlanId) => Effect.Effect<boolean>
  readonly headers: Readonly<Record<string, string>>
}

/** The frames that no UI protocol shows. Nothing of them is parsed. */
const unseen: ReadonlySet<PlanEvent["event"]> = new Set<PlanEvent["event"]>([
  "session",
  "queued",
  "retry",
  "notice",
  "compaction",
  "usage",
  "done"
])

const decodePayload = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json)))

/**
 * The frames of a plan as the events of a UI protocol. Where the plan only waits for a decision it ends before the plan: clients decide
 * after the end of a stream.
 */
export const respond = (
  plan: FollowedPlan,
  { decided, fold, follow, headers, hold, isIdle, join, tail }: Telling
): HttpServerResponse.HttpServerResponse => {
  const { plan_id, session_id } = plan
  const { frames, shortCut } = join(plan)
  let cutNext: ((next: SseAnswer.Told) => void) | undefined
  let seen = 0
  let read = plan_id
  const next = Effect.gen(function* () {
    if (fold.movedTo === undefined) return none
    const { plan, until } = yield* follow(PlanId.make(fold.movedTo))
    read = plan.plan_id
    fold.follow(until)
    const told = join(plan)
    cutNext?.(told)
    return told.frames
  })
  const whole: FollowedPlan["frames"] = Stream.concat(frames, Stream.unwrap(next))
  const encode = (events: ReadonlyArray<object>) => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("")
  const pause = DecisionPause.make(
    () => fold.waits(decided),
    // A plan that waits for results needs no reader.
    Effect.suspend(() => (fold.waitsForDecision(decided) ? hold(read, seen) : Effect.void)),
    Effect.suspend(() => isIdle(read))
  )
  const body = SseAnswer.translated({
    plan_id,
    frames: whole,
    shortCut: shortCut && {
      ...shortCut,
      from: (write) => {
        shortCut.from(write)
        cutNext = (next) => next.shortCut?.from(write)
      }
    },
    next: ({ event, payload, seq }) => {
      seen = seq
      if (unseen.has(event)) return ""
      return encode(fold.next({ id: seq, event, data: { ...decodePayload(payload), plan_id: read, session_id } }))
    },
    pause,
    isCut: () => fold.isOver,
    end: (why) => {
      const { code, message } = SseAnswer.brokenOff(why)
      return encode(why === "paused" ? fold.pause(decided) : fold.fail(code, message)) + tail
    }
  })
  return HttpServerResponse.setHeaders(body, { ...headers, "x-bowline-plan-id": plan_id })
}
