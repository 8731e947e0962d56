import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { SessionId } from "@bowline/domain/session/Session"
import { encoder, ping, reconnect } from "@bowline/protocol/stream/SseFrame"
import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import type { ReaderItem, Reading } from "@bowline/runtime/unstable/stream/LivePlan"
import { isDelta, type PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import { Cause, Clock, Effect, Fiber, Option, Stream } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import * as StreamMetrics from "../telemetry/StreamMetrics.ts"
import { type Ended, type Followed, type FollowedPlan, isEnded } from "@bowline/runtime/unstable/stream/PlanFollower"
import type { DecisionPause } from "./DecisionPause.ts"
import * as PlanArrival from "./PlanArrival.ts"

const headers = { "cache-control": "no-cache, no-transform", "x-accel-buffering": "no" }

const nothing = new Uint8Array(0)

interface Read extends Pick<Reading, "frames" | "connect" | "shortCut"> {
  readonly plan_id: PlanId
  readonly session_id: SessionId
}

/** Writes frames that are available together at once. If reading fails, it asks the caller to reconnect. */
const toBytes = (read: Read, request: HttpServerRequest.HttpServerRequest): Stream.Stream<Uint8Array> => {
  const { frames, plan_id, session_id } = read
  const ids = { plan_id, session_id }
  const shortCut = PlanArrival.join(read, request)
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
      (items) => Buffer.from(items.reduce((text, item) => text + toText(item), "")),
      shortCut
    )
  )
}

/** For how long frames that show nothing may keep a connection silent, in milliseconds: pings come between frames only. */
const unseenMs = 1_000

/** The texts of a protocol that does not show everything. In the place of nothing comes a ping, unless something was written just now. */
const toTexts = <Item, E>(
  items: Items<Item, E>,
  toText: (items: ReadonlyArray<Followed<Item>>) => string,
  shortCut: Translation<Item, E>["shortCut"]
) =>
  Stream.unwrap(
    Effect.map(Clock.Clock, (clock) => {
      let written = Monotonic.millis(clock)
      const toBytes = (items: ReadonlyArray<Followed<Item>>) => {
        const text = toText(items)
        const at = Monotonic.millis(clock)
        if (text === "" && at - written < unseenMs) return nothing
        written = at
        return Buffer.from(text === "" ? ping : text)
      }
      // What is no piece of a text may end the stream, or pause it: it comes through the stream.
      return StreamMetrics.writing(items, toBytes, shortCut, isDelta)
    })
  )

/** The same stream up to the success of `end`, for which it does not wait. `Stream.interruptWhen` reads ahead of the connection, in fibers of its own. */
const upTo = <A, E>(stream: Stream.Stream<A, E>, end: Effect.Effect<void>): Stream.Stream<A, E> =>
  Stream.transformPull(stream, (pull, scope) =>
    Effect.map(Effect.forkIn(end, scope, { startImmediately: true }), (ending) =>
      Effect.raceFirst(pull, Effect.andThen(Fiber.join(ending), Cause.done()))
    )
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

/** The frames of a plan for the connection that its reader has joined. */
export interface Told extends Pick<FollowedPlan, "frames"> {
  /** What the reader's joining has given. */
  readonly shortCut?: StreamMetrics.ShortCut<PlanFrame>
}

/** What happens to a plan in the words of another protocol. */
export interface Translation<Item, E> {
  /** What the log names. */
  readonly plan_id?: string
  readonly frames: Items<Item, E>
  /** The reader's way past `frames`, for the pieces of its texts. */
  readonly shortCut?: StreamMetrics.ShortCut<Item & PlanFrame> | undefined
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
export const translated = <Item, E>(translation: Translation<Item, E>) => {
  const { end, first = "", frames, isCut, next, pause, plan_id, shortCut } = translation
  let why: Why = "interrupted"
  const toText = (item: Followed<Item>) => {
    if (item === "ping") return ping
    if (!isEnded(item)) return next(item)
    why = whyEnded[item]
    return ""
  }
  const toWhole = (items: ReadonlyArray<Followed<Item>>) => {
    const text = items.reduce((text, item) => text + toText(item), "")
    pause?.look()
    return text
  }
  const texts = toTexts(frames, toWhole, shortCut)
  const reached = pause && Effect.map(pause.reached, () => void (why = "paused"))
  const told = reached === undefined ? texts : upTo(texts, reached)
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
