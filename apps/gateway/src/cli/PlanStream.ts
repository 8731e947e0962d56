import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { SseFrame } from "@bowline/protocol/stream/SseFrame"
import { Data, Effect, Stream } from "effect"
import type { GatewayClient } from "./GatewayClient.ts"
import { frames } from "./GatewayClient.ts"

/** The stream broke, and whatever was tried, not one frame more came. */
export class StreamLost extends Data.TaggedError("StreamLost") {}

/** A minute: as long as a plan waits for a reader when another process has taken it over. */
const maxFailures = 120
const backoff = "500 millis"

/** Starts a plan and reads it to its end: a stream that ends without `done` is taken up where it broke. */
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
      // The plan is there, but the gateway is not, or its database.
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
