import {
  type BowlineError,
  type BowlineOptions,
  makeBowline,
  type PlanStream,
  type StreamEvent
} from "../src/Bowline.ts"
import { fullJitter } from "../src/Requests.ts"
import { makeClock, makeGateway } from "./Gateway.ts"

/** A client of a scripted gateway, on a clock that stands still. */
export const setUp = (options: Partial<BowlineOptions> = {}) => {
  const time = makeClock()
  const gateway = makeGateway()
  const events: Array<StreamEvent> = []
  const bowline = makeBowline({
    options: {
      baseUrl: "http://gateway",
      fetch: gateway.fetch,
      onEvent: (event) => void events.push(event),
      ...options
    },
    clock: time.clock,
    backoff: fullJitter(time.clock)
  })
  const delays = () => events.flatMap((event) => (event.type === "cut" ? [event.delayMs] : []))
  const cuts = () => events.flatMap((event) => (event.type === "cut" ? [event.error.code] : []))
  return { ...time, ...gateway, bowline, events, delays, cuts }
}

/** Reads a stream to its end in the background: its frames, and what it threw. */
export const watch = (plan: PlanStream) => {
  const ids: Array<number> = []
  const seen: { readonly ids: Array<number>; error?: BowlineError; isOver: boolean } = { ids, isOver: false }
  const read = async () => {
    try {
      for await (const { id } of plan) ids.push(id)
    } catch (error) {
      seen.error = error as BowlineError
    }
    seen.isOver = true
  }
  void read()
  return seen
}
