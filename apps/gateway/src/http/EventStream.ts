import type { PlanId } from "@bowline/domain/plan/PlanId"
import type { SessionId } from "@bowline/domain/session/SessionId"
import { encoder, ping, reconnect } from "@bowline/protocol/stream/SseFrame"
import type { PlanReader, ReaderItem } from "@bowline/runtime/stream/PlanReader"
import { Cause, Effect, Stream } from "effect"
import { HttpServerResponse } from "effect/http"

const headers = { "cache-control": "no-cache, no-transform", "x-accel-buffering": "no" }

/**
 * The frames of a plan as server-sent events: those that are there together go in one write. Where they cannot be read on, the
 * caller is asked to come back.
 */
export const respond = (
  ids: { readonly plan_id: PlanId; readonly session_id: SessionId },
  frames: PlanReader
): HttpServerResponse.HttpServerResponse => {
  const encode = encoder(ids)
  const toText = (item: ReaderItem) => (item === "ping" ? ping : item === "reconnect" ? reconnect : encode(item))
  const body = frames.pipe(
    Stream.catchCauseIf(
      (cause) => !Cause.hasInterruptsOnly(cause),
      (cause) => Stream.fromEffect(Effect.as(Effect.logError("A stream of events failed", cause), "reconnect" as const))
    ),
    Stream.mapArray((items) => [Buffer.from(items.map(toText).join(""))])
  )
  return HttpServerResponse.stream(body, { contentType: "text/event-stream", headers })
}
