import { type BowlineError, errorOf, isForeign, isObject, textOf, unexpected } from "./BowlineError.ts"
import { sleep, within } from "./Clock.ts"
import type { Plan, PlanFrame } from "./Wire.ts"
import { type Backoff, ignore, mayPass, parse, pathOf, type Request, type Requests, toError } from "./Requests.ts"
import { makeDecoder, type SseEvent } from "./SseDecoder.ts"

/** How far a stream is read. Whoever reads it moves this on. */
export interface Position {
  /** Undefined until the gateway has said it. */
  planId: string | undefined
  lastId: number
  /** The newest answer of the gateway. */
  response?: Response | undefined
  /** The frame that says how the plan ended. */
  outcome?: PlanFrame | undefined
  /** Whether a frame of the plan has come from there: whatever else answers now stands in front of a gateway. */
  isBegun: boolean
}

export const requestIdOf = ({ response }: Position): string | undefined =>
  response?.headers.get("x-request-id") ?? undefined

export const positionAt = (planId: string | undefined, lastId: number, isBegun = false): Position => ({
  planId,
  lastId,
  isBegun
})

const incomplete = (cause: Error): BowlineError =>
  errorOf("incomplete", `The stream ended: ${cause.message}`, true, { cause })

/** How long a gateway is asked that has never answered, in milliseconds: its address may be wrong. */
const firstAnswerMs = 30_000

/** The time that is left without a byte. It counts what was waited, so that a machine that slept does not give up when it wakes. */
const makePatience = ({ clock, isMet, settings }: Requests, signal: AbortSignal) => {
  const patience = {
    spent: 0,
    left: () => Math.min(settings.giveUpAfterMs, isMet() ? Infinity : firstAnswerMs) - patience.spent,
    wait: <A>(limitMs: number, promise: Promise<A>) => spend(limitMs, (ms) => within(clock, signal, ms, promise)),
    sleep: (limitMs: number) => spend(limitMs, (ms) => sleep(clock, signal, ms))
  }
  const spend = async <A>(limitMs: number, wait: (ms: number) => Promise<A>): Promise<A> => {
    const ms = Math.min(limitMs, patience.left())
    const start = clock.now()
    try {
      return await wait(ms)
    } finally {
      patience.spent += Math.max(0, Math.min(clock.now() - start, ms))
    }
  }
  return patience
}

const planOf = (planId = "", action = ""): Request => ({ path: pathOf("plans", planId, action) })

const eventsOf = (planId: string | undefined, after: number): Request => ({
  ...planOf(planId, "/events"),
  headers: { accept: "text/event-stream", ...(after && { "last-event-id": `${after}` }) }
})

/** The frame of an event, if it has a number. */
const toFrame = ({ data: text, event, id }: Exclude<SseEvent, { comment: string }>): PlanFrame | undefined => {
  if (!/^\d{1,15}$/.test(id ?? "")) return undefined
  const data = parse(text)
  if (!isObject(data)) throw unexpected("The answer is no JSON")
  // The gateway's frames have the shapes of its API.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return { id: Number(id), event, data } as object as PlanFrame
}

/**
 * Reads the frames of a plan after a position, each one once and in order, over as many connections as it takes, up to `done`. `start`
 * is the request that starts the plan. It is sent until the gateway has named the plan. Fails with the reason of the signal, with a
 * refusal of the gateway, with `incomplete`, or with `unreachable`.
 *
 *       ┌────────── wait ◀─────────┐ cut, silence, gap, `: reconnect`, 429, 502, 503, 504,
 *       ▼                          │ and behind the first frame whatever is no answer of a gateway
 *   connect ───▶ read ─────────────┤
 *       │          │ done          │ too often, for too long
 *   refused        ▼               ▼
 *                over          incomplete, or unreachable where no gateway has ever answered
 *
 * Where the gateway no longer keeps the frames (410), the plan itself says how it ended.
 */
export async function* readFrames(
  requests: Requests,
  position: Position,
  signal: AbortSignal,
  start?: Request
): AsyncGenerator<PlanFrame, void, undefined> {
  const { emit, send, settings } = requests
  const patience = makePatience(requests, signal)
  /** Of the outage that lasts. */
  let backoff: Backoff | undefined
  /** The next request asks for all frames: the gateway does not know the last one, or has none after it. */
  let isReplay = false
  let wasRefused = false
  let isConnected = false

  /** The stream has to be asked for again: after its last frame, or from its start. */
  const cut = (code: "ended" | "reconnect" | "gap", message: string, fromStart = false): BowlineError => {
    isReplay = fromStart
    return errorOf(code, message, true)
  }

  /** Undefined for a frame that was there before. */
  const accept = (event: Exclude<SseEvent, { comment: string }>): PlanFrame | undefined => {
    const frame = toFrame(event)
    if (frame === undefined) return undefined
    // A question that a running plan hears is answered from there on.
    const isHeard = position.planId === undefined && frame.event === "inbox.accepted"
    if (frame.id > position.lastId + 1 && !isHeard) throw cut("gap", `${frame.id} came after ${position.lastId}`)
    if (frame.event === "final" || frame.event === "error") position.outcome = frame
    if (frame.id <= position.lastId) {
      if (frame.event !== "done") return undefined
      if (frame.id < position.lastId) throw incomplete(new Error("Frames are missing"))
      return frame
    }
    position.lastId = frame.id
    position.isBegun = true
    position.planId = textOf(frame.data.plan_id) ?? position.planId
    backoff = undefined
    isReplay = false
    wasRefused = false
    return frame
  }

  async function* readOnce(connection: AbortSignal): AsyncGenerator<PlanFrame, void, undefined> {
    const { lastId, planId } = position
    const request = planId === undefined && start !== undefined ? start : eventsOf(planId, isReplay ? 0 : lastId)
    const response = await patience.wait(settings.connectTimeoutMs, send(request, connection))
    position.response = response
    isConnected = true
    const reader: ReadableStreamDefaultReader<Uint8Array> | undefined = response.body?.getReader()
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream")
    if (reader === undefined || isStream !== true) {
      const page = Promise.resolve(reader?.read()).catch(ignore)
      const first = await patience.wait(settings.silenceMs, page)
      // Chromium takes a head that broke over plain http for a whole one: then nothing comes after it.
      if (first?.done === true) throw cut("ended", "The answer ended")
      throw unexpected("No gateway answers")
    }
    emit({ type: "connected", planId, lastEventId: lastId })
    const decode = makeDecoder()
    let isEmpty = true
    /** It stays spent until a whole event has come: what sends only garbage is given up like what sends nothing. */
    let { spent } = patience
    try {
      for (;;) {
        const { done, value } = await patience.wait(settings.silenceMs, reader.read())
        if (done) throw cut("ended", "The stream ended", isEmpty && lastId > 0)
        patience.spent = 0
        isEmpty = false
        for (const event of decode(value)) {
          if ("comment" in event) {
            spent = 0
            if (event.comment === "reconnect") throw cut("reconnect", "The stream ended")
            continue
          }
          const known = position.lastId
          const frame = accept(event)
          if (frame === undefined) continue
          spent = 0
          if (frame.id > known) yield frame
          if (frame.event === "done") return
        }
      }
    } finally {
      patience.spent = Math.max(patience.spent, spent)
      reader.cancel().catch(ignore)
    }
  }

  /** Somebody can go on later, from what the error names. */
  const fail = (error: BowlineError): BowlineError => {
    const { lastId: lastEventId, planId } = position
    return Object.assign(error, { requestId: error.requestId ?? requestIdOf(position), planId, lastEventId })
  }

  const giveUp = async (error: BowlineError): Promise<BowlineError> =>
    fail(requests.isMet() || error.status ? incomplete(error) : await requests.unreachable(error, signal))

  for (;;) {
    signal.throwIfAborted()
    isConnected = false
    const connection = new AbortController()
    let error: BowlineError
    try {
      yield* readOnce(AbortSignal.any([signal, connection.signal]))
      return
    } catch (cause) {
      signal.throwIfAborted()
      error = toError(cause, isConnected)
      position.planId ??= error.planId
      if (error.status === 400 && position.planId !== undefined && position.lastId > 0) {
        if (wasRefused) throw fail(incomplete(error))
        isReplay = true
        wasRefused = true
      } else if (error.status !== 410 && !mayPass(error) && !(position.isBegun && isForeign(error))) throw fail(error)
    } finally {
      connection.abort()
    }
    if (error.status === 410) {
      // The frames are no longer kept: these two say how the plan ended.
      const {
        error,
        final,
        finished_at: at,
        plan_id,
        session_id
      } = await requests.call<Plan>(planOf(position.planId), { signal })
      for (const event of [final ? "final" : "error", "done"]) {
        const data = { plan_id, session_id, at, ...final, ...error }
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion
        const frame = { id: ++position.lastId, event, data } as object as PlanFrame
        position.outcome ??= frame
        yield frame
      }
      return
    }
    // A plan that has fewer frames than were seen is asked for once more at once.
    const delayMs = error.status === 400 ? 0 : (error.retryAfterMs ?? (await (backoff ??= requests.backoff())()))
    if (delayMs === undefined || patience.left() <= 0 || (error.retryAfterMs ?? 0) > patience.left())
      throw await giveUp(error)
    emit({ type: "cut", planId: position.planId, lastEventId: position.lastId, error, delayMs })
    await patience.sleep(delayMs)
    if (patience.left() <= 0) throw await giveUp(error)
  }
}
