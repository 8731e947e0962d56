import type { CallerName } from "@bowline/domain/caller/CallerName"
import * as Usage from "@bowline/domain/plan/Usage"
import { Plans } from "@bowline/runtime/plan/Plans"
import { type PlanFrame, toEvent } from "@bowline/runtime/unstable/store/EventRow"
import { PlanFollower, type PlanReading } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect, Fiber, Option, Stream } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { prefersJson, resultOf, waitFor } from "./JsonAnswer.ts"
import { count, logFailure, type Refusal, toRefused } from "./Refusals.ts"
import * as SseAnswer from "./SseAnswer.ts"

/** How long a caller that waits for one object hears nothing. Proxies give up after 20 s to 60 s without a byte. */
const silence = "10 seconds"

const headers = { "cache-control": "no-cache, no-transform", "x-accel-buffering": "no" }

/** Starts or joins the plan of a request, and answers with its events, or with one object when it is over. */
export const make = Effect.map(Effect.all([Plans, PlanFollower]), ([plans, follower]) => {
  /**
   * The object with its own status where the plan is over soon, or where the gateway can soon no longer wait. Else the head of a good answer, and spaces until the
   * object comes: JSON may begin with them.
   */
  const waitPatiently = Effect.fnUntraced(function* (caller: CallerName, reading: PlanReading) {
    const { plan_id, session_id } = reading
    let usage = Usage.empty
    const look = (frame: PlanFrame) => {
      const event = frame.event === "usage" ? toEvent(frame) : undefined
      if (event?.event === "usage") usage = Usage.add(usage, event.data)
    }
    // The scope of the request ends it: behind the answer, or when the caller disconnects.
    const waiting = yield* Effect.forkScoped(waitFor(plans, caller, follower.follow(caller, reading), look), {
      startImmediately: true
    })
    const soon = yield* Effect.timeoutOption(Fiber.join(waiting), silence)
    if (Option.isSome(soon)) return HttpServerResponse.jsonUnsafe(soon.value)
    const late = Fiber.join(waiting).pipe(
      logFailure,
      Effect.catch((refusal) =>
        Effect.map(count(toRefused(refusal)), ({ code, detail: message, retryable }) => ({
          plan_id,
          session_id,
          state: "running" as const,
          error: { code, message, retryable, stage: null },
          usage
        }))
      )
    )
    const body = Stream.merge(
      Stream.fromEffect(Effect.map(late, (result) => JSON.stringify(result))),
      Stream.map(Stream.tick(silence), () => " "),
      { haltStrategy: "left" }
    )
    return HttpServerResponse.stream(Stream.encodeText(body), { contentType: "application/json", headers })
  })

  return <R>(
    caller: CallerName,
    starting: Effect.Effect<PlanReading, Refusal, R>,
    request: HttpServerRequest.HttpServerRequest
  ) =>
    prefersJson(request.headers.accept)
      ? starting.pipe(
          Effect.flatMap((reading) => waitPatiently(caller, reading)),
          // A repeated request, whose plan ended long ago: the result is in the row of the plan, which outlives the events.
          Effect.catchTag("EventsExpired", ({ plan_id }) =>
            Effect.map(plans.get(caller, plan_id), (plan) => HttpServerResponse.jsonUnsafe(resultOf(plan)))
          )
        )
      : Effect.map(starting, (reading) => SseAnswer.fromStart(reading, request))
})
