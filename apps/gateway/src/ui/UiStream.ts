import type { UiFold } from "@bowline/client/unstable/ui/UiFold"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { SessionId } from "@bowline/domain/session/Session"
import { ping } from "@bowline/protocol/stream/SseFrame"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import type { PlanReader, ReaderItem } from "@bowline/runtime/unstable/stream/LivePlan"
import { Effect, Schema, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import * as DecisionPause from "../http/DecisionPause.ts"
import * as SseAnswer from "../http/SseAnswer.ts"

interface Reading {
  readonly plan_id: PlanId
  readonly session_id: SessionId
  readonly frames: PlanReader
}

interface Telling {
  readonly fold: UiFold<object>
  /** What follows the last event. */
  readonly tail: string
  /** The calls that the client has decided about just now. */
  readonly decided: ReadonlySet<string>
  /** Reads the plan after this frame in place of the client, while only a decision is waited for. */
  readonly hold: (seen: number) => Effect.Effect<void>
  readonly isDraining: Effect.Effect<boolean>
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
 * The frames of a plan as the events of a UI protocol. It begins at once, and never ends in silence. Where the plan only waits for a
 * decision it ends before the plan: clients decide after the end of a stream.
 */
export const respond = (
  { frames, plan_id, session_id }: Reading,
  { decided, fold, headers, hold, isDraining, tail }: Telling
): HttpServerResponse.HttpServerResponse => {
  let seen = 0
  let isPaused = false
  const bytes = (text: string) => Buffer.from(text)
  const encode = (events: ReadonlyArray<object>) => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("")
  const read = ({ event, payload, seq }: PlanFrame): ReadonlyArray<object> => {
    seen = seq
    if (unseen.has(event)) return []
    return fold.next({ id: seq, event, data: { ...decodePayload(payload), plan_id, session_id } })
  }
  const toText = (item: ReaderItem): string => {
    if (item === "reconnect") return ""
    return item === "ping" ? ping : encode(read(item))
  }
  const pause = DecisionPause.make(
    () => fold.waits(decided),
    Effect.suspend(() => hold(seen))
  )
  const reached = Effect.map(pause.reached, () => {
    isPaused = true
  })
  const written = SseAnswer.toTexts(frames, (items) => {
    const text = items.map(toText).join("")
    pause.look()
    return text
  })
  const told = Stream.interruptWhen(written, reached).pipe(
    Stream.catchCause((cause) =>
      Stream.fromEffectDrain(Effect.annotateLogs(Effect.logError("stream_failed", cause), { plan_id }))
    )
  )
  const end = Stream.fromEffect(
    Effect.map(isDraining, (draining) => {
      const last = isPaused
        ? fold.pause(decided)
        : draining
          ? fold.fail("draining", "The gateway is shutting down")
          : fold.fail("interrupted", "The gateway can no longer read the plan: it may still run")
      return bytes(encode(last) + tail)
    })
  )
  const body = SseAnswer.begun(Stream.concat(told, end))
  return HttpServerResponse.setHeaders(body, { ...headers, "x-bowline-plan-id": plan_id })
}
