import type { UiFold } from "@bowline/client/unstable/ui/UiFold"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { FollowedPlan } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import * as DecisionPause from "../../http/DecisionPause.ts"
import * as SseAnswer from "../../http/SseAnswer.ts"

interface Telling {
  readonly fold: UiFold<object>
  /** What follows the last event. */
  readonly tail: string
  /** The calls that the client has decided about, or given the results of, just now. */
  readonly decided: ReadonlySet<string>
  /** Reads the plan after this frame in place of the client, while only a decision is waited for. */
  readonly hold: (seen: number) => Effect.Effect<void>
  /** Whether no call runs that has not told yet that it has begun. */
  readonly isIdle: Effect.Effect<boolean>
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
  { frames, plan_id, session_id }: FollowedPlan,
  { decided, fold, headers, hold, isIdle, tail }: Telling
): HttpServerResponse.HttpServerResponse => {
  let seen = 0
  const encode = (events: ReadonlyArray<object>) => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("")
  const pause = DecisionPause.make(
    () => fold.waits(decided),
    // A plan that waits for results needs no reader.
    Effect.suspend(() => (fold.waitsForDecision(decided) ? hold(seen) : Effect.void)),
    isIdle
  )
  const body = SseAnswer.translated({
    plan_id,
    frames,
    next: ({ event, payload, seq }) => {
      seen = seq
      if (unseen.has(event)) return ""
      return encode(fold.next({ id: seq, event, data: { ...decodePayload(payload), plan_id, session_id } }))
    },
    pause,
    end: (why) => {
      const { code, message } = SseAnswer.brokenOff(why)
      return encode(why === "paused" ? fold.pause(decided) : fold.fail(code, message)) + tail
    }
  })
  return HttpServerResponse.setHeaders(body, { ...headers, "x-bowline-plan-id": plan_id })
}
