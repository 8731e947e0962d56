import { ping } from "@bowline/protocol/stream/SseFrame"
import type { PlanReader, ReaderItem } from "@bowline/runtime/unstable/stream/LivePlan"
import { Effect, Stream } from "effect"
import type { HttpServerResponse } from "effect/http"
import type { DecisionPause } from "../http/DecisionPause.ts"
import * as SseAnswer from "../http/SseAnswer.ts"
import * as OpenAiError from "../openai/OpenAiError.ts"
import type { ResponseEvent, ResponseEvents } from "./ResponseEvents.ts"

const encode = (event: ResponseEvent): string => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`

/** The end of a stream that is not the plan's. It has the number of the event before it: after that the client can read on. */
const failure = (sequence_number: number, code: string, message: string): ResponseEvent => {
  const { error } = OpenAiError.make(500, code, message)
  const event = { ...error, type: "error", sequence_number, error }
  return event
}

/** The numbers that the client has already, and whether its stream ends at a pause. */
interface Seen {
  readonly events: ResponseEvents
  readonly after: number
  readonly pause?: DecisionPause
}

/**
 * The events of a plan's response after those that were seen. It begins at once, and never ends in silence: a client that does not see
 * `response.completed`, `response.incomplete` or `response.failed` sees an `error`. At a pause it ends with `response.completed`, as the server
 * of OpenAI does, since clients decide after the end only; the response in it is still `in_progress`.
 */
export const respond = (
  { after, events, pause }: Seen,
  frames: PlanReader,
  isDraining: Effect.Effect<boolean>
): HttpServerResponse.HttpServerResponse => {
  const toText = (item: ReaderItem): string => {
    if (item === "reconnect") return ""
    if (item === "ping") return ping
    return events
      .next(item)
      .flatMap((event) => (event.sequence_number > after ? [encode(event)] : []))
      .join("")
  }
  const bytes = (text: string) => Buffer.from(text)
  let isPaused = false
  const written = SseAnswer.toTexts(frames, (items) => {
    const text = items.map(toText).join("")
    pause?.look()
    return text
  })
  const reached = Effect.map(pause?.reached ?? Effect.never, () => {
    isPaused = true
  })
  const told = Stream.interruptWhen(written, reached).pipe(
    Stream.catchCause((cause) => Stream.fromEffectDrain(Effect.logError("stream_failed", cause)))
  )
  const end = Stream.fromEffect(
    Effect.map(isDraining, (draining) => {
      const last = Math.max(events.last, after)
      if (isPaused) {
        const event = { type: "response.completed", sequence_number: last, response: events.paused }
        return bytes(encode(event))
      }
      if (events.isOver) return bytes("")
      return bytes(
        encode(
          draining
            ? failure(last, "draining", "The gateway is shutting down: read on with starting_after")
            : failure(
                last,
                "interrupted",
                "The gateway can no longer read the plan, which may still run: read on with starting_after"
              )
        )
      )
    })
  )
  // An empty write sends the head: the first event may take a while.
  return SseAnswer.toResponse(Stream.succeed(bytes("")).pipe(Stream.concat(told), Stream.concat(end)))
}
