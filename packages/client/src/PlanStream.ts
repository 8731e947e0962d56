import { errorOf } from "./BowlineError.ts"
import { holdProcess, within } from "./Clock.ts"
import { makeFrameLog, makeIterator, type Reading, textsOf } from "./FrameLog.ts"
import { positionAt, readFrames, requestIdOf } from "./PlanFrames.ts"
import type { PlanView } from "./PlanView.ts"
import { ignore, pathOf, type Request, type Requests, type Signal } from "./Requests.ts"
import type { AcceptedEntry } from "./InboxWire.ts"
import type { Final, Plan, PlanFrame } from "./Wire.ts"

/**
 * A plan as it runs. Reading it never loses a frame and never repeats one: where a connection breaks, it is resumed. The plan of a request is
 * cancelled when its signal is aborted, and when its last reader leaves while nobody waits for `result()`, unless the request says
 * `on_disconnect: "continue"`. A plan that was only attached to, or that has heard the question (`on_busy: "steer"`), is left alone. A frame's `event` says what its `data` has; that of a gateway of a
 * later version may be another one.
 */
export interface PlanStream extends AsyncIterable<PlanFrame> {
  /** Rejects if the plan never began. */
  readonly planId: Promise<string>
  /** The number of the last frame that has come; 0 before the first one. */
  readonly lastEventId: number
  /** The newest answer of the gateway. */
  readonly response: Response | undefined
  /** The answer as it grows: each time all of it, without what was retracted. The last one is `final.text`. */
  readonly text: () => AsyncIterable<string>
  /** All that can be shown of the plan by now. */
  readonly view: () => PlanView
  /** The payload of `final`, when the plan is over. Rejects with a `BowlineError` for `error` and for an incomplete stream. */
  readonly result: () => Promise<Final>
  /** Adds a text while the plan works. With `moved` the answer names the plan that asks it: this one had completed. */
  readonly send: (text: string, said?: Said) => Promise<AcceptedEntry>
  /** Ends the plan. One that is over stays as it is. */
  readonly cancel: () => Promise<Plan>
}

/** How a text is said to a plan. */
export interface Said extends Signal {
  /** At the next step, or in place of what the model is answering. */
  readonly when?: "boundary" | "now"
  /** What becomes of it where the plan completes first: the next question of its session, or nothing. */
  readonly else?: "ask" | "reject"
  /** The caller's own name of the text: with the same one it is said once. Made where it is not given. */
  readonly key?: string | undefined
}

export interface Source {
  /** The request that starts the plan. Without one it is attached to. */
  readonly start?: Request | undefined
  readonly planId?: string | undefined
  readonly after?: number | undefined
  /** Whether the plan ends with its caller. */
  readonly endsWithCaller: boolean
  readonly signal?: AbortSignal | undefined
}

/** A promise that nobody has to wait for. */
const deferred = <A>(): PromiseWithResolvers<A> => {
  const all = Promise.withResolvers<A>()
  all.promise.catch(ignore)
  return all
}

/** Begins to read at once. */
export const openStream = (requests: Requests, source: Source): PlanStream => {
  const { accept, call, clock, settings } = requests
  const { after = 0, endsWithCaller, signal } = source
  const position = positionAt(source.planId, after)
  /** Ends every wait of the stream. */
  const life = new AbortController()
  const log = makeFrameLog((last, leaving) =>
    readFrames(requests, positionAt(position.planId, last, true), AbortSignal.any([life.signal, leaving]))
  )
  /** Resolves also behind an abort: to cancel the plan takes its name. */
  const named = deferred<string>()
  const planId = deferred<string>()
  const result = deferred<Final>()
  let readers = 0
  let isAwaited = false

  const name = (id: string | undefined): void => {
    if (id === undefined) return
    named.resolve(id)
    planId.resolve(id)
  }

  /** Only the first end counts. */
  const end = (how: Reading): void => {
    if (!log.isReading()) return
    signal?.removeEventListener("abort", leave)
    if ("error" in how) {
      planId.reject(how.error)
      result.reject(how.error)
    }
    log.end(how)
  }

  const cancelPlan = (id: string, keepalive = false): Promise<Plan> =>
    call({ method: "POST", path: pathOf("plans", id, "/cancel"), keepalive })

  /** A plan may have begun whose name is still on its way: the answer to the request says it. */
  const cancelWhenNamed = async (error: unknown): Promise<void> => {
    try {
      const id = await within(clock, life.signal, settings.connectTimeoutMs, named.promise)
      life.abort(error)
      await cancelPlan(id, true)
    } catch {
      // The gateway ends the plan itself when its caller does not come back.
      life.abort(error)
    }
  }

  /** The caller leaves: nobody waits any longer, and then the gateway is told. */
  const abort = (error: unknown): void => {
    if (!log.isReading()) return
    end({ state: "aborted", error })
    // Where frames begin later, the plan is that of another question, and has heard this one.
    if (endsWithCaller && log.start() < 2) void cancelWhenNamed(error)
    else life.abort(error)
  }

  const leave = (): void => abort(signal?.reason)

  const readToEnd = async (): Promise<void> => {
    try {
      for await (const frame of readFrames(requests, position, life.signal, source.start)) {
        log.append(frame)
        name(position.planId)
      }
      const { outcome } = position
      if (outcome?.event === "final") result.resolve(outcome.data)
      if (outcome?.event === "error") {
        const { code, data, message, reason, retryable, stage } = outcome.data
        const { planId } = position
        result.reject(
          errorOf(code, message, retryable, { stage, reason, data, requestId: requestIdOf(position), planId })
        )
      }
      end({ state: "over" })
    } catch (error) {
      end({ state: "broken", error })
    }
  }

  /** A reader from now on. */
  const iterate = (): AsyncIterableIterator<PlanFrame> => {
    const leaving = new AbortController()
    const leave = (): void => {
      if (leaving.signal.aborted) return
      leaving.abort()
      if (--readers > 0 || isAwaited) return
      abort(errorOf("aborted", "No reader is left", false, { reason: "disconnect" }))
    }
    const reading = log.read(leaving.signal, leave)
    readers++
    return makeIterator(
      () => holdProcess(reading.next()),
      () => {
        leave()
        log.wake()
        return reading.return(undefined)
      }
    )
  }

  const withId = <A>(ask: (id: string) => Promise<A>): Promise<A> => {
    const asked = holdProcess(planId.promise).then(ask)
    asked.catch(ignore)
    return asked
  }

  name(source.planId)
  if (signal?.aborted === true) end({ state: "aborted", error: signal.reason })
  else {
    signal?.addEventListener("abort", leave)
    void readToEnd()
  }

  return {
    [Symbol.asyncIterator]: iterate,
    get planId() {
      return holdProcess(planId.promise)
    },
    get lastEventId() {
      return position.lastId
    },
    get response() {
      return position.response
    },
    text: () => textsOf(iterate()),
    view: log.view,
    result: () => {
      isAwaited = true
      return holdProcess(result.promise)
    },
    send: (text, { key: idempotencyKey, signal, ...how } = {}) =>
      withId((id) => accept(id, { type: "text", text, ...how }, { idempotencyKey, signal })),
    cancel: () => withId((id) => cancelPlan(id))
  }
}
