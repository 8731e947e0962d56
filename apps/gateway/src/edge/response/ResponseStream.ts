import type { HttpServerResponse } from "effect/http"
import type { DecisionPause } from "../../http/DecisionPause.ts"
import * as SseAnswer from "../../http/SseAnswer.ts"
import * as OpenAiError from "../openai/OpenAiError.ts"
import type { ResponseEvent, ResponseEvents } from "./ResponseEvents.ts"

const encode = (event: ResponseEvent): string => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`

const failures = {
  draining: "The gateway is shutting down: read on with starting_after",
  interrupted: "The gateway can no longer read the plan, which may still run: read on with starting_after"
}

/** The numbers that the client has already, and whether its stream ends at a pause. */
interface Seen {
  readonly events: ResponseEvents
  readonly after: number
  readonly pause?: DecisionPause
  /** What the client has brought with its request. */
  readonly brought?: ReadonlySet<string>
}

/** An end that is not the plan's. It has the number of the event before it: after that the client can read on. */
const endOf = ({ after, brought = new Set(), events }: Seen, why: SseAnswer.Why): ReadonlyArray<ResponseEvent> => {
  if (why === "paused" && events.waitsForResults(brought)) return events.call()
  const sequence_number = Math.max(events.last, after)
  const paused = { type: "response.completed", sequence_number, response: events.paused }
  if (why === "paused") return [paused]
  const code = why === "draining" ? why : "interrupted"
  const { error } = OpenAiError.make(500, code, failures[code])
  const broken = { ...error, type: "error", sequence_number, error }
  return [broken]
}

/**
 * The events of a plan's response after those that were seen. A client that does not see `response.completed`, `response.incomplete` or
 * `response.failed` sees an `error`. At a pause it ends with `response.completed`, as the server of OpenAI does, since clients decide after
 * the end only; the response in it is still `in_progress`.
 */
export const respond = (seen: Seen, { frames, shortCut }: SseAnswer.Told): HttpServerResponse.HttpServerResponse => {
  const { after, events, pause } = seen
  return SseAnswer.translated({
    plan_id: events.plan_id,
    frames,
    shortCut,
    next: (frame) =>
      events
        .next(frame)
        .flatMap((event) => (event.sequence_number > after ? [encode(event)] : []))
        .join(""),
    isCut: () => events.isCalled,
    pause,
    end: (why) => (events.isOver ? "" : endOf(seen, why).map(encode).join(""))
  })
}
