import type { CallerName } from "@bowline/domain/caller/CallerName"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanFollower, type PlanReading } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { prefersJson, waitFor } from "./JsonAnswer.ts"
import * as SseAnswer from "./SseAnswer.ts"

/** Answers a request that has started a plan: with its events, or when it is over with one object. */
export const make = Effect.map(Effect.all([Plans, PlanFollower]), ([plans, follower]) =>
  Effect.fnUntraced(function* (caller: CallerName, reading: PlanReading, request: HttpServerRequest.HttpServerRequest) {
    if (prefersJson(request.headers.accept)) {
      return HttpServerResponse.jsonUnsafe(yield* waitFor(plans, caller, follower.follow(caller, reading)))
    }
    return SseAnswer.fromStart(reading, request)
  })
)
