import type { SseFrame } from "@bowline/protocol/stream/SseFrame"
import { decode } from "@bowline/protocol/stream/SseFrame"
import { Data, Effect, Stream } from "effect"
import type { HttpClientResponse } from "effect/http"
import { accepted, type GatewayClient } from "./GatewayClient.ts"

/** The stream broke, and no attempt to resume it brought another frame. */
export class StreamLost extends Data.TaggedError("StreamLost") {}

/** One minute: as long as a plan that another process has taken over waits for a reader. */
const maxFailures = 120

/** Before the first frame nobody knows the plan: a request is repeated, which a gateway answers with a frame at once. */
const maxFailuresBefore = 3
const backoff = "500 millis"

/** A stream that is silent for longer than its pings allow counts as ended. */
const silence = "30 seconds"

/** Asks for a plan's events behind a frame. */
export const eventsOf = ({ client }: GatewayClient, id: string, after = 0) =>
  client.plans.events({
    params: { id },
    headers: { "last-event-id": after },
    query: {},
    responseMode: "response-only"
  })

/** A request for the stream of a plan. It can be repeated: it starts no second plan. */
export type StreamRequest = Effect.Effect<
  HttpClientResponse.HttpClientResponse,
  Effect.Error<ReturnType<typeof eventsOf>>
>

/** Reads a plan to its end, from the response to a request. It resumes a stream that ends without `done` behind the last frame. */
export const follow = Effect.fnUntraced(function* (
  gateway: GatewayClient,
  request: StreamRequest,
  {
    onCut,
    onFrame
  }: {
    readonly onFrame: (frame: SseFrame) => Effect.Effect<void>
    readonly onCut: Effect.Effect<void>
  }
) {
  const seen: { last?: SseFrame } = {}

  const read = Effect.suspend(() =>
    seen.last === undefined ? request : eventsOf(gateway, seen.last.data.plan_id, seen.last.id)
  ).pipe(
    Effect.flatMap((response) => {
      // The plan exists, but the gateway or its database is unavailable, or wants to be asked less often.
      if ((response.status >= 500 || response.status === 429) && seen.last !== undefined) return Effect.void
      return Effect.flatMap(accepted(response), ({ stream }) =>
        Stream.runForEach(decode(Stream.timeout(stream, silence)), (frame) => {
          seen.last = frame
          return onFrame(frame)
        }).pipe(Effect.catchTag("HttpClientError", () => Effect.void))
      )
    }),
    Effect.catchTag("HttpClientError", (error) => (seen.last === undefined ? Effect.fail(error) : Effect.void))
  )

  for (let failures = 0; seen.last?.event !== "done";) {
    if (failures >= (seen.last === undefined ? maxFailuresBefore : maxFailures)) return yield* new StreamLost()
    if (failures > 0) yield* Effect.sleep(backoff)
    const before = seen.last
    yield* read
    yield* onCut
    failures = seen.last === before ? failures + 1 : 1
  }
})
