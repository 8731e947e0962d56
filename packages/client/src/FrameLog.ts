import { initialView, type PlanView } from "./PlanView.ts"
import { reduce } from "./Reduce.ts"
import type { PlanFrame } from "./Wire.ts"

/** So many frames are kept. A reader that is further behind gets them from the gateway. */
const maxFrames = 10_000

/**
 * How far a plan is read.
 *
 *                 ┌──▶ over       `done` has come
 *     reading ────┼──▶ broken     refused or incomplete: a reader gets the frames that came, then the error
 *                 └──▶ aborted    the caller has left: a reader gets the error at once
 */
export type Reading =
  | { readonly state: "reading" | "over" }
  | { readonly state: "broken" | "aborted"; readonly error: unknown }

/** An iterator that can leave while it waits, and before it has asked for anything. */
export const makeIterator = <A>(
  next: () => Promise<IteratorResult<A, undefined>>,
  leave: () => Promise<IteratorResult<A, undefined>>
): AsyncIterableIterator<A, undefined> => ({
  next,
  return: leave,
  [Symbol.asyncIterator]() {
    return this
  }
})

/** The frames of a plan from the first one that comes, for any number of readers. `older` asks the gateway for those that are no longer kept. */
export const makeFrameLog = (older: (after: number, leaving: AbortSignal) => AsyncIterable<PlanFrame>) => {
  let reading: Reading = { state: "reading" }
  let frames: Array<PlanFrame> = []
  /** Of the first frame that came, and of the first one that is kept. */
  let start = 0
  let firstId = 0
  let viewed = initialView
  const waiting: Array<() => void> = []

  const wake = (): void => {
    for (const one of waiting.splice(0)) one()
  }

  /** Frames are only added up for who looks. */
  const view = (): PlanView => {
    const next = Math.max(viewed.lastId + 1, firstId)
    viewed = frames.slice(next - firstId).reduce(reduce, viewed)
    return viewed
  }

  const append = (frame: PlanFrame): void => {
    if (frames.length >= maxFrames) {
      view()
      frames = frames.slice(maxFrames / 2)
      firstId += maxFrames / 2
    }
    start ||= firstId ||= frame.id
    frames.push(frame)
    wake()
  }

  /** Every frame from the first one on. A reader that leaves while it waits is woken by whoever lets it leave. */
  async function* read(leaving: AbortSignal, leave: () => void): AsyncGenerator<PlanFrame, undefined, undefined> {
    let next = 0
    try {
      while (!leaving.aborted) {
        if (reading.state === "aborted") throw reading.error
        next ||= start
        const frame = frames[next - firstId]
        if (next < firstId) {
          for await (const one of older(next - 1, leaving)) {
            next = one.id + 1
            yield one
            if (next >= firstId) break
          }
        } else if (frame !== undefined) {
          next++
          yield frame
        } else if (reading.state === "reading") await new Promise<void>((resolve) => void waiting.push(resolve))
        else if ("error" in reading) throw reading.error
        else return
      }
    } catch (error) {
      if (!leaving.aborted) throw error
    } finally {
      leave()
    }
  }

  return {
    append,
    read,
    view,
    wake,
    isReading: () => reading.state === "reading",
    /** The first frame that came; 0 before. */
    start: () => start,
    end: (how: Reading): void => {
      reading = how
      wake()
    }
  }
}

/** The answer as it grows, by the frames of a reader: each time all of it. */
export const textsOf = (frames: AsyncIterableIterator<PlanFrame>): AsyncIterableIterator<string> => {
  let seen = initialView
  const next = async (): Promise<IteratorResult<string, undefined>> => {
    for (;;) {
      const read = await frames.next()
      if (read.done === true) return read
      const { text } = seen
      seen = reduce(seen, read.value)
      if (seen.text !== text) return { value: seen.text }
    }
  }
  return makeIterator(next, async (): Promise<IteratorResult<string, undefined>> => {
    await frames.return?.()
    return { done: true, value: undefined }
  })
}
