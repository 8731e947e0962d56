import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { SessionId } from "@bowline/domain/session/Session"
import { encoder, ping, reconnect } from "@bowline/protocol/stream/SseFrame"
import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import type { ReaderItem, Reading } from "@bowline/runtime/unstable/stream/LivePlan"
import { Cause, Clock, Effect, Option, Stream } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import * as StreamMetrics from "../telemetry/StreamMetrics.ts"
import { type Ended, type Followed, isEnded } from "@bowline/runtime/unstable/stream/PlanFollower"
import type { DecisionPause } from "./DecisionPause.ts"
import * as PlanArrival from "./PlanArrival.ts"

const headers = { "cache-control": "no-cache, no-transform", "x-accel-buffering": "no" }

const nothing = new Uint8Array(0)

interface Read extends Pick<Reading, "frames" | "connect" | "shortCut"> {
  readonly plan_id: PlanId
  readonly session_id: SessionId
}

/** Writes frames that are available together at once. If reading fails, it asks the caller to reconnect. */
const toBytes = (
  { connect, frames, plan_id, session_id, shortCut }: Read,
  request: HttpServerRequest.HttpServerRequest
): Stream.Stream<Uint8Array> => {
  const ids = { plan_id, session_id }
  const write = PlanArrival.join(connect, request)
  const encode = encoder(ids)
  const toText = (item: ReaderItem) => (item === "ping" ? ping : item === "reconnect" ? reconnect : encode(item))
  const comeBack = (cause: Cause.Cause<StorageError>) => {
    const error = Option.getOrUndefined(Cause.findErrorOption(cause))
    return Effect.logError("stream_failed", error === undefined ? cause : error.reason.cause).pipe(
      Effect.annotateLogs(ids),
      Effect.as("reconnect" as const),
      Stream.fromEffect
    )
  }
  return frames.pipe(Stream.catchCause(comeBack), (items) =>
    StreamMetrics.writing(
      items,
      (items) => Buffer.from(items.map(toText).join("")),
      shortCut && { from: shortCut, to: write }
    )
  )
}

/** For how long frames that show nothing may keep a connection silent, in milliseconds: pings come between frames only. */
const unseenMs = 1_000

/** The texts of a protocol that does not show everything. In the place of nothing comes a ping, unless something was written just now. */
const toTexts = <Item, E>(items: Items<Item, E>, toText: (items: ReadonlyArray<Followed<Item>>) => string) =>
  Stream.unwrap(
    Effect.map(Clock.Clock, (clock) => {
      let written = Monotonic.millis(clock)
      return StreamMetrics.writing(items, (items) => {
        const text = toText(items)
        const at = Monotonic.millis(clock)
        if (text === "" && at - written < unseenMs) return nothing
        written = at
        return Buffer.from(text === "" ? ping : text)
      })
    })
  )

/** Text as server-sent events. */
export const toResponse = (body: Stream.Stream<Uint8Array>) =>
  HttpServerResponse.stream(body, { contentType: "text/event-stream", headers })

/** The frames of a plan from its start as server-sent events. Its reader has the connection of the request. */
export const fromStart = (read: Read, request: HttpServerRequest.HttpServerRequest) =>
  toResponse(toBytes(read, request))

// An empty write sends the head of the response. Otherwise the caller would wait for it until the next event.
const head = Stream.succeed(nothing)

/** Text whose first piece may take a while. */
export const begun = (body: Stream.Stream<Uint8Array>) => toResponse(Stream.concat(head, body))

/** The same from a later frame on. */
export const fromLater = (read: Read, request: HttpServerRequest.HttpServerRequest) => begun(toBytes(read, request))

/** Why the stream of another protocol ends. */
export type Why = "paused" | "over" | "draining" | "gone" | "interrupted"

const whyEnded: Readonly<Record<Ended, Why>> = { Over: "over", Draining: "draining", Gone: "gone" }

/** The error with which a stream tells that it breaks off before its plan is over. */
export const brokenOff = (why: Why): { readonly code: string; readonly message: string } =>
  why === "draining"
    ? { code: why, message: "The gateway is shutting down" }
    : { code: "interrupted", message: "The gateway can no longer read the plan: it may still run" }

type Items<Item, E> = Stream.Stream<Followed<Item>, E>

/** What happens to a plan in the words of another protocol. */
export interface Translation<Item, E> {
  /** What the log names. */
  readonly plan_id?: string
  readonly frames: Items<Item, E>
  /** What is written at once. */
  readonly first?: string
  readonly next: (item: Item) => string
  /** Whether the rest of the plan is not told. */
  readonly isCut?: () => boolean
  /** Ends the stream before its plan. */
  readonly pause?: DecisionPause | undefined
  /** What is written last: nothing of that if the end of the plan was told. */
  readonly end: (why: Why) => string
}

/** A plan in another protocol. It begins at once, and never ends in silence. */
export const translated = <Item, E>({ end, first = "", frames, isCut, next, pause, plan_id }: Translation<Item, E>) => {
  let why: Why = "interrupted"
  const toText = (item: Followed<Item>) => {
    if (item === "ping") return ping
    if (!isEnded(item)) return next(item)
    why = whyEnded[item]
    return ""
  }
  const texts = toTexts(frames, (items) => {
    const text = items.map(toText).join("")
    pause?.look()
    return text
  })
  const reached = pause && Effect.map(pause.reached, () => void (why = "paused"))
  const told = reached === undefined ? texts : Stream.interruptWhen(texts, reached)
  const body = (isCut === undefined ? told : Stream.takeUntil(told, isCut)).pipe(
    Stream.catchCause((cause) =>
      Stream.fromEffectDrain(
        Effect.annotateLogs(Effect.logError("stream_failed", cause), plan_id === undefined ? {} : { plan_id })
      )
    ),
    Stream.concat(Stream.fromEffect(Effect.sync(() => Buffer.from(end(why)))))
  )
  return toResponse(Stream.concat(Stream.succeed(Buffer.from(first)), body))
}
