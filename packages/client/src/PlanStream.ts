import { BowlineError } from "./BowlineError.ts"
import { within } from "./Clock.ts"
import { type Position, positionAt, readFrames } from "./PlanFrames.ts"
import { type Frame, initialView, type PlanView } from "./PlanView.ts"
import { isPlanFrame, reduce } from "./Reduce.ts"
import type { Request, Requests } from "./Requests.ts"
import type { Failure, Final, Plan } from "./Wire.ts"

/** So many frames are kept. A reader that is further behind gets them from the gateway. */
const maxFrames = 10_000

/**
 * A plan as it runs. Reading it never loses a frame and never repeats one: where a connection breaks, it is resumed. The plan of a request is
 * cancelled when its signal is aborted, and when its last reader leaves while nobody waits for `result()`, unless the request says
 * `on_disconnect: "continue"`. A plan that was only attached to is left alone.
 */
export interface PlanStream extends AsyncIterable<Frame> {
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
  /** Ends the plan. One that is over stays as it is. */
  readonly cancel: () => Promise<Plan>
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

const ignore = (): undefined => undefined

/** A promise that nobody has to wait for. */
const deferred = <A>(): PromiseWithResolvers<A> => {
  const all = Promise.withResolvers<A>()
  all.promise.catch(ignore)
  return all
}

/** Why readers of a plan that ended with `error` have no result. */
const failureOf = (data: Failure, { planId, response }: Position): BowlineError => {
  const { code, message, reason, retryable, stage } = data
  const requestId = response?.headers.get("x-request-id") ?? undefined
  return new BowlineError({ code, message, retryable, stage, reason, data: data.data, requestId, planId })
}

const allHaveLeft = (): BowlineError =>
  new BowlineError({ code: "aborted", message: "The last reader has left", retryable: false, reason: "disconnect" })

/** Begins to read at once. */
export const openStream = (requests: Requests, source: Source): PlanStream => {
  const { call, clock, settings } = requests
  const { after = 0, endsWithCaller, signal, start } = source
  const position = positionAt(source.planId, after)
  /** Ends every wait of the stream. */
  const life = new AbortController()
  const named = deferred<string>()
  const planId = deferred<string>()
  const result = deferred<Final>()
  let frames: Array<Frame> = []
  let firstId = after + 1
  let viewed = initialView
  let ending: { readonly isAborted: boolean; readonly error?: unknown } | undefined
  let waiting: Array<() => void> = []
  let readers = 0
  let isAwaited = false

  const wake = (): void => {
    const woken = waiting
    waiting = []
    for (const one of woken) one()
  }

  const end = (how: NonNullable<typeof ending>): void => {
    if (ending !== undefined) return
    ending = how
    signal?.removeEventListener("abort", leave)
    if ("error" in how) {
      planId.reject(how.error)
      result.reject(how.error)
    }
    wake()
  }

  const cancelPlan = (id: string, keepalive = false): Promise<Plan> =>
    call({ method: "POST", path: `/plans/${encodeURIComponent(id)}/cancel`, keepalive })

  /** A plan may have begun whose name is still on its way: the answer to the request says it. */
  const cancelWhenNamed = async (error: unknown): Promise<void> => {
    try {
      const id = position.planId ?? (await within(clock, life.signal, settings.connectTimeoutMs, named.promise))
      life.abort(error)
      await cancelPlan(id, true)
    } catch {
      // The gateway ends the plan itself when its caller does not come back.
      life.abort(error)
    }
  }

  /** The caller leaves: nobody waits any longer, and then the gateway is told. */
  const abort = (error: unknown): void => {
    if (ending !== undefined) return
    end({ isAborted: true, error })
    if (endsWithCaller) void cancelWhenNamed(error)
    else life.abort(error)
  }

  const leave = (): void => abort(signal?.reason)

  /** Frames are only added up for who looks. */
  const view = (): PlanView => {
    const next = Math.max(viewed.lastId + 1, firstId)
    viewed = frames.slice(next - firstId).reduce(reduce, viewed)
    return viewed
  }

  const push = (frame: Frame): void => {
    if (frames.length >= maxFrames) {
      view()
      frames = frames.slice(maxFrames / 2)
      firstId += maxFrames / 2
    }
    frames.push(frame)
    if (position.planId !== undefined) {
      named.resolve(position.planId)
      planId.resolve(position.planId)
    }
    wake()
  }

  const finish = (): void => {
    const { outcome } = position
    if (outcome !== undefined && isPlanFrame(outcome) && outcome.event === "final") result.resolve(outcome.data)
    if (outcome !== undefined && isPlanFrame(outcome) && outcome.event === "error") {
      result.reject(failureOf(outcome.data, position))
    }
    end({ isAborted: false })
  }

  const readToEnd = async (): Promise<void> => {
    try {
      for await (const frame of readFrames(requests, position, life.signal, start)) push(frame)
      finish()
    } catch (error) {
      end({ isAborted: false, error })
    }
  }

  async function* read(leaving: AbortSignal, leave: () => void): AsyncGenerator<Frame, undefined, undefined> {
    let next = after + 1
    try {
      while (!leaving.aborted) {
        if (ending?.isAborted === true) throw ending.error
        const frame = frames[next - firstId]
        if (next < firstId) {
          const older = positionAt(position.planId, next - 1)
          for await (const one of readFrames(requests, older, AbortSignal.any([life.signal, leaving]))) {
            next = one.id + 1
            yield one
            if (next >= firstId) break
          }
        } else if (frame !== undefined) {
          next++
          yield frame
        } else if (ending === undefined) await new Promise<void>((resolve) => void waiting.push(resolve))
        else if ("error" in ending) throw ending.error
        else return
      }
    } catch (error) {
      if (!leaving.aborted) throw error
    } finally {
      leave()
    }
  }

  /** A reader from now on, which can leave while it waits, and before it has asked for anything. */
  const iterate = (): AsyncIterableIterator<Frame> => {
    const leaving = new AbortController()
    const leave = (): void => {
      if (leaving.signal.aborted) return
      leaving.abort()
      if (--readers === 0 && !isAwaited) abort(allHaveLeft())
    }
    const reading = read(leaving.signal, leave)
    readers++
    return {
      next: () => reading.next(),
      return: () => {
        leave()
        wake()
        return reading.return(undefined)
      },
      [Symbol.asyncIterator]() {
        return this
      }
    }
  }

  const iterateTexts = (): AsyncIterableIterator<string> => {
    const reading = iterate()
    let seen = initialView
    const over = { done: true, value: undefined } as const
    return {
      next: async () => {
        for (;;) {
          const read = await reading.next()
          if (read.done === true) return over
          const { text } = seen
          seen = reduce(seen, read.value)
          if (seen.text !== text) return { value: seen.text }
        }
      },
      return: async () => {
        await reading.return?.()
        return over
      },
      [Symbol.asyncIterator]() {
        return this
      }
    }
  }

  if (source.planId !== undefined) planId.resolve(source.planId)
  if (signal?.aborted === true) end({ isAborted: true, error: signal.reason })
  else {
    signal?.addEventListener("abort", leave)
    void readToEnd()
  }

  return {
    [Symbol.asyncIterator]: iterate,
    planId: planId.promise,
    get lastEventId() {
      return position.lastId
    },
    get response() {
      return position.response
    },
    text: iterateTexts,
    view,
    result: () => {
      isAwaited = true
      return result.promise
    },
    cancel: () => {
      const cancelled = planId.promise.then((id) => cancelPlan(id))
      cancelled.catch(ignore)
      return cancelled
    }
  }
}
