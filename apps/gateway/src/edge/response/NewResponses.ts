import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import type { Route } from "@bowline/runtime/remote/PeerClient"
import { Plans } from "@bowline/runtime/plan/Plans"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import { type FollowedPlan, PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect, Schema } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import * as DecisionPause from "../../http/DecisionPause.ts"
import { waitFor } from "../../http/JsonAnswer.ts"
import * as PlanArrival from "../../http/PlanArrival.ts"
import { invalid } from "../../http/Refusals.ts"
import { readForeignJson } from "../../http/RequestBody.ts"
import * as ClientResults from "../leg/ClientResults.ts"
import * as OpenAiError from "../openai/OpenAiError.ts"
import * as ItemReferences from "./ItemReferences.ts"
import type * as OpenAiPlans from "../openai/OpenAiPlans.ts"
import { ResponseEvents } from "./ResponseEvents.ts"
import * as ResponseReading from "./ResponseReading.ts"
import * as ResponseRequest from "./ResponseRequest.ts"
import * as ResponseStream from "./ResponseStream.ts"
import type { StoredResponses } from "./StoredResponses.ts"

/** Starts plans for `POST /v1/responses`, and answers with their responses. */
export const make = Effect.fnUntraced(function* (stored: StoredResponses, openAi: OpenAiPlans.OpenAiPlans) {
  const plans = yield* Plans
  const follower = yield* PlanFollower
  const { maxBody } = yield* GatewayConfig
  const readBody = readForeignJson(Schema.Record(Schema.String, Schema.Unknown), maxBody)

  const resolve = ItemReferences.make(stored)
  const results = yield* ClientResults.make
  const readingOf = yield* ResponseReading.make(stored, openAi, results)

  /** The response of a plan that was not streamed: where it ends, or where it waits for a decision. */
  const responseOf = Effect.fnUntraced(function* (
    caller: CallerName,
    plan: FollowedPlan,
    events: ResponseEvents,
    pause: DecisionPause.DecisionPause,
    brought: ReadonlySet<TaskId>
  ) {
    const look = (frame: PlanFrame) => {
      events.next(frame)
      pause.look()
    }
    yield* Effect.raceFirst(waitFor(plans, caller, plan, look), pause.reached)
    if (events.waitsForResults(brought)) events.call()
    if (events.failure === undefined) return HttpServerResponse.jsonUnsafe(events.response)
    const { body, headers, status } = OpenAiError.fromFailure(events.failure)
    return HttpServerResponse.jsonUnsafe(body, { status, headers })
  })

  return Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, route: Route) {
    const caller = yield* Caller
    const { value } = yield* readBody(request)
    const whole = yield* resolve(caller, value)
    const asked = yield* Effect.mapError(Effect.fromResult(ResponseRequest.decode(whole)), invalid)
    yield* openAi.expectModel(asked.model)
    const sent = { headers: request.headers, route, body: value }
    const { calls, echo, headers, leg, ...reading } = yield* readingOf(caller, asked, sent)
    const ref = { plan_id: reading.plan_id, leg }
    const { background } = asked.echo
    if (background && !asked.isStreamed) {
      return HttpServerResponse.jsonUnsafe((yield* stored.told(caller, ref)).events.response, { headers })
    }
    const files = stored.shown(caller)
    const followed = follower.follow(caller, reading)
    const plan = { ...followed, frames: files.before(followed.frames) }
    const events = new ResponseEvents(ref, echo, files)
    const waits = () => (background ? events.waitsForResults(calls) : events.waits(calls))
    // A plan that waits for results needs no reader.
    const leave = Effect.suspend(() => (events.waitsForResults(calls) ? Effect.void : plan.leaveRunning))
    const pause = DecisionPause.make(waits, leave, results.isIdle(caller, plan.plan_id))
    if (!asked.isStreamed) {
      return HttpServerResponse.setHeaders(yield* responseOf(caller, plan, events, pause, calls), headers)
    }
    const told = { frames: plan.frames, shortCut: PlanArrival.join(plan, request) }
    const seen = { events, after: -1, pause, brought: calls }
    return HttpServerResponse.setHeaders(ResponseStream.respond(seen, told), headers)
  })
})
