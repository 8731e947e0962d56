import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { SessionId } from "@bowline/domain/session/Session"
import { encoder, ping, reconnect } from "@bowline/protocol/stream/SseFrame"
import type { PlanReader, ReaderItem } from "@bowline/runtime/unstable/stream/LivePlan"
import { Cause, Effect, Option, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import * as StreamMetrics from "../telemetry/StreamMetrics.ts"

const headers = { "cache-control": "no-cache, no-transform", "x-accel-buffering": "no" }

interface Ids {
  readonly plan_id: PlanId
  readonly session_id: SessionId
}

/** Writes frames that are available together at once. If reading fails, it asks the caller to reconnect. */
const toBytes = (ids: Ids, frames: PlanReader): Stream.Stream<Uint8Array> => {
  const encode = encoder(ids)
  const toText = (item: ReaderItem) => (item === "ping" ? ping : item === "reconnect" ? reconnect : encode(item))
  const comeBack = (cause: Cause.Cause<StorageError>) => {
    const error = Option.getOrUndefined(Cause.findErrorOption(cause))
    return Effect.logError("stream_failed", error === undefined ? cause : error.reason.cause).pipe(
      Effect.annotateLogs({ ...ids }),
      Effect.as("reconnect" as const),
      Stream.fromEffect
    )
  }
  return frames.pipe(Stream.catchCause(comeBack), (items) =>
    StreamMetrics.writing(items, (items) => Buffer.from(items.map(toText).join("")))
  )
}

/** Text as server-sent events. */
export const toResponse = (body: Stream.Stream<Uint8Array>) =>
  HttpServerResponse.stream(body, { contentType: "text/event-stream", headers })

/** The frames of a plan from its start as server-sent events. */
export const fromStart = (ids: Ids, frames: PlanReader) => toResponse(toBytes(ids, frames))

// An empty write sends the head of the response. Otherwise the caller would wait for it until the next event.
const head = Stream.succeed(new Uint8Array(0))

/** Text whose first piece may take a while. */
export const begun = (body: Stream.Stream<Uint8Array>) => toResponse(Stream.concat(head, body))

/** The frames of a plan from a later one on. */
export const fromLater = (ids: Ids, frames: PlanReader) => begun(toBytes(ids, frames))
