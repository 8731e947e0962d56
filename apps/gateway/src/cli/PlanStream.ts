import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { SseFrame } from "@bowline/protocol/stream/SseFrame"
import { Data, Effect, Stream } from "effect"
import type { GatewayClient } from "./GatewayClient.ts"
import { frames } from "./GatewayClient.ts"

/** The stream broke, and no attempt to resume it brought another frame. */
export class StreamLost extends Data.TaggedError("StreamLost") {}

/** One minute: as long as a plan that another process has taken over waits for a reader. */
const maxFailures = 120
const backoff = "500 millis"

/** Starts a plan and reads it to its end. It resumes a stream that ends without `done` behind the last frame. */
export const follow = Effect.fnUntraced(function* (
  { client }: GatewayClient,
  payload: PlanRequest,
  onFrame: (frame: SseFrame) => Effect.Effect<void>
) {
  const seen: { last?: SseFrame } = {}

  const read = Effect.suspend(() =>
    seen.last === undefined
      ? client.plans.start({ headers: {}, payload, responseMode: "response-only" })
      : client.plans.events({
          params: { id: seen.last.data.plan_id },
          headers: { "last-event-id": seen.last.id },
          query: {},
          responseMode: "response-only"
        })
  ).pipe(
    Effect.flatMap((response) => {
      // The plan exists, but the gateway or its database is unavailable.
      if (response.status >= 500 && seen.last !== undefined) return Effect.void
      return Stream.runForEach(frames(response), (frame) => {
        seen.last = frame
        return onFrame(frame)
      })
    }),
    Effect.catchTag("HttpClientError", (error) => (seen.last === undefined ? Effect.fail(error) : Effect.void))
  )

  for (let failures = 0; seen.last?.event !== "done";) {
    if (failures > maxFailures) return yield* new StreamLost()
    if (failures > 0) yield* Effect.sleep(backoff)
    const before = seen.last
    yield* read
    failures = seen.last === before ? failures + 1 : 1
  }
})
