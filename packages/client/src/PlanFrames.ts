import { BowlineError } from "./BowlineError.ts"
import { sleep, TimedOut, within } from "./Clock.ts"
import type { Frame } from "./PlanView.ts"
import { type Backoff, mayPass, type Request, type Requests, toError } from "./Requests.ts"
import { FrameTooLarge, makeDecoder, type SseEvent } from "./SseDecoder.ts"

/** How far a stream is read. Whoever reads it moves this on. */
export interface Position {
  /** Undefined until the gateway has said it. */
  planId: string | undefined
  lastId: number
  /** The newest answer of the gateway. */
  response: Response | undefined
  /** The frame that says how the plan ended. */
  outcome: Frame | undefined
}

export const positionAt = (planId: string | undefined, lastId: number): Position => ({
  planId,
  lastId,
  response: undefined,
  outcome: undefined
})

/** The stream has to be asked for again after its last frame. */
class Cut extends Error {
  readonly code: string
  constructor(code: "ended" | "silence" | "reconnect" | "gap" | "replay", message: string) {
    super(message)
    this.code = code
  }
}

const unexpected = (message: string, position: Position, cause?: unknown): BowlineError =>
  new BowlineError({
    code: "unexpected_response",
    message,
    retryable: false,
    planId: position.planId,
    lastEventId: position.lastId,
    cause
  })

/** The time that is left without a byte. It counts what was waited, so that a machine that slept does not give up when it wakes. */
const makePatience = ({ clock, settings }: Requests, signal: AbortSignal) => {
  let left = settings.giveUpAfterMs
  const spend = async <A>(limitMs: number, wait: (ms: number) => Promise<A>): Promise<A> => {
    const ms = Math.min(limitMs, left)
    const start = clock.now()
    try {
      return await wait(ms)
    } finally {
      left -= Math.max(0, Math.min(clock.now() - start, ms))
    }
  }
  return {
    left: () => left,
    renew: () => {
      left = settings.giveUpAfterMs
    },
    wait: <A>(limitMs: number, promise: Promise<A>) => spend(limitMs, (ms) => within(clock, signal, ms, promise)),
    sleep: (limitMs: number) => spend(limitMs, (ms) => sleep(clock, signal, ms))
  }
}

const eventsOf = (planId: string, after: number): Request => ({
  method: "GET",
  path: `/plans/${encodeURIComponent(planId)}/events`,
  headers: { accept: "text/event-stream", ...(after > 0 && { "last-event-id": String(after) }) }
})

/** The frame of an event, if it has a number. */
const toFrame = (event: Exclude<SseEvent, { comment: string }>, position: Position): Frame | undefined => {
  if (event.id === undefined || !/^\d{1,15}$/.test(event.id)) return undefined
  try {
    const data: unknown = JSON.parse(event.data)
    if (typeof data === "object" && data !== null) return { id: Number(event.id), event: event.event, data }
    throw unexpected("The data of a frame is no object", position)
  } catch (cause) {
    throw cause instanceof BowlineError ? cause : unexpected("The data of a frame is no JSON", position, cause)
  }
}

/**
 * Reads the frames of a plan after a position, each one once and in order, over as many connections as it takes, up to `done`. `start`
 * is the request that starts the plan. It is sent until the gateway has named the plan. Fails with the reason of the signal, with a
 * refusal of the gateway, or with `incomplete`.
 *
 *       ┌────────── wait ◀─────────┐
 *       ▼                          │ cut, silence, gap, `: reconnect`, 429, 502, 503, 504
 *   connect ───▶ read ─────────────┤
 *       │          │ done          │ too often, for too long
 *   refused        ▼               ▼
 *                over          incomplete
 */
export async function* readFrames(
  requests: Requests,
  position: Position,
  signal: AbortSignal,
  start?: Request
): AsyncGenerator<Frame, void, undefined> {
  const { emit, send, settings } = requests
  const patience = makePatience(requests, signal)
  /** Of the outage that lasts. */
  let backoff: Backoff | undefined
  /** The next request asks for all frames: the gateway does not know the last one, or has none after it. */
  let isReplay = false
  let wasRefused = false
  let isConnected = false

  const incomplete = (cause: unknown): BowlineError =>
    new BowlineError({
      code: "incomplete",
      message: `The stream of the plan broke and could not be resumed: ${cause instanceof Error ? cause.message : "?"}`,
      retryable: true,
      requestId: position.response?.headers.get("x-request-id") ?? undefined,
      planId: position.planId,
      lastEventId: position.lastId,
      cause
    })

  /** Undefined for a frame that was there before. */
  const accept = (event: Exclude<SseEvent, { comment: string }>): Frame | undefined => {
    const frame = toFrame(event, position)
    if (frame === undefined) return undefined
    if (frame.id > position.lastId + 1) throw new Cut("gap", `Frame ${frame.id} came after ${position.lastId}`)
    if (frame.event === "final" || frame.event === "error") position.outcome = frame
    if (frame.id <= position.lastId) {
      if (frame.event === "done" && frame.id < position.lastId) throw incomplete(new Error("The plan has fewer frames"))
      return frame.event === "done" ? frame : undefined
    }
    position.lastId = frame.id
    if ("plan_id" in frame.data && typeof frame.data.plan_id === "string") position.planId = frame.data.plan_id
    backoff = undefined
    isReplay = false
    wasRefused = false
    return frame
  }

  async function* readOnce(connection: AbortSignal): AsyncGenerator<Frame, void, undefined> {
    const { lastId, planId } = position
    const request = planId === undefined && start !== undefined ? start : eventsOf(planId ?? "", isReplay ? 0 : lastId)
    const response = await patience.wait(settings.connectTimeoutMs, send(request, connection))
    position.response = response
    isConnected = true
    const reader: ReadableStreamDefaultReader<Uint8Array> | undefined = response.body?.getReader()
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream")
    if (reader === undefined || isStream !== true) {
      const first = await patience.wait(settings.silenceMs, Promise.resolve(reader?.read()))
      // Chromium takes a head that broke over plain http for a whole one: then nothing comes after it.
      if (first?.done === true) throw new Cut("ended", "The answer ended before its stream began")
      throw unexpected("What answers is not the stream of a gateway", position)
    }
    emit({ type: "connected", planId, lastEventId: lastId })
    const decode = makeDecoder()
    let isEmpty = true
    try {
      for (;;) {
        const { done, value } = await patience.wait(settings.silenceMs, reader.read())
        if (done) throw new Cut(isEmpty && lastId > 0 ? "replay" : "ended", "The stream ended before the plan did")
        patience.renew()
        isEmpty = false
        for (const event of decode(value)) {
          if ("comment" in event) {
            if (event.comment === "reconnect") throw new Cut("reconnect", "The gateway asks to come back")
            continue
          }
          const known = position.lastId
          const frame = accept(event)
          if (frame !== undefined && frame.id > known) yield frame
          if (frame?.event === "done") return
        }
      }
    } finally {
      reader.cancel().catch(() => undefined)
    }
  }

  /** What went wrong, if it may be better the next time. */
  const toCut = (error: unknown): BowlineError => {
    if (error instanceof Cut) {
      isReplay = error.code === "replay"
      return new BowlineError({ code: isReplay ? "ended" : error.code, message: error.message, retryable: true })
    }
    if (error instanceof TimedOut && isConnected) {
      return new BowlineError({ code: "silence", message: error.message, retryable: true, cause: error })
    }
    if (error instanceof FrameTooLarge) {
      const { lastId: lastEventId, planId } = position
      throw new BowlineError({ code: "frame_too_large", message: error.message, retryable: false, planId, lastEventId })
    }
    const translated = toError(error)
    position.planId ??= translated.planId
    if (translated.status === 400 && position.planId !== undefined && position.lastId > 0) {
      if (wasRefused) throw incomplete(translated)
      isReplay = true
      wasRefused = true
      return translated
    }
    if (!mayPass(translated)) throw translated
    return translated
  }

  for (;;) {
    signal.throwIfAborted()
    isConnected = false
    const connection = new AbortController()
    const leave = () => connection.abort(signal.reason)
    signal.addEventListener("abort", leave)
    let error: BowlineError
    try {
      yield* readOnce(connection.signal)
      return
    } catch (cause) {
      signal.throwIfAborted()
      error = toCut(cause)
    } finally {
      signal.removeEventListener("abort", leave)
      connection.abort()
    }
    // A plan that has fewer frames than were seen is asked for once more at once.
    const delayMs = error.status === 400 ? 0 : (error.retryAfterMs ?? (await (backoff ??= requests.backoff())()))
    if (delayMs === undefined || patience.left() <= 0 || (error.retryAfterMs ?? 0) > patience.left())
      throw incomplete(error)
    emit({ type: "cut", planId: position.planId, lastEventId: position.lastId, error, delayMs })
    await patience.sleep(delayMs)
    if (patience.left() <= 0) throw incomplete(error)
  }
}
