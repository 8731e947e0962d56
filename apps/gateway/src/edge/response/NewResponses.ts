import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Plan, PlanId } from "@bowline/domain/plan/Plan"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { NotFound } from "@bowline/domain/plan/Refusal"
import { ExternalSessionId } from "@bowline/domain/session/Session"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { defaultPreset } from "@bowline/runtime/unstable/config/Presets"
import type { Route } from "@bowline/runtime/remote/PeerClient"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import { type FollowedPlan, PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Clock, Effect, Schema } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import * as DecisionPause from "../../http/DecisionPause.ts"
import { waitFor } from "../../http/JsonAnswer.ts"
import * as PlanArrival from "../../http/PlanArrival.ts"
import { invalid } from "../../http/Refusals.ts"
import { readForeignJson } from "../../http/RequestBody.ts"
import * as ClientResults from "../leg/ClientResults.ts"
import * as ApprovalResponses from "./ApprovalResponses.ts"
import * as OpenAiError from "../openai/OpenAiError.ts"
import * as ItemReferences from "./ItemReferences.ts"
import * as OpenAiPlans from "../openai/OpenAiPlans.ts"
import type { ResponseEcho } from "./ResponseEcho.ts"
import { ResponseEvents } from "./ResponseEvents.ts"
import { refOf } from "./ResponseItems.ts"
import * as ResponseRequest from "./ResponseRequest.ts"
import * as ResponseStream from "./ResponseStream.ts"
import type { StoredResponses } from "./StoredResponses.ts"

/** The session of the response that a request follows. */
const sessionOf = (previous: Pick<Plan, "session_id" | "external_session_id"> | undefined) =>
  previous === undefined
    ? {}
    : { session_id: previous.external_session_id ?? ExternalSessionId.make(previous.session_id) }

/** Starts plans for `POST /v1/responses`, and answers with their responses. */
export const make = Effect.fnUntraced(function* (stored: StoredResponses) {
  const plans = yield* Plans
  const streams = yield* PlanStreams
  const follower = yield* PlanFollower
  const openAi = yield* OpenAiPlans.make
  const { maxBody } = yield* GatewayConfig
  const readBody = readForeignJson(Schema.Record(Schema.String, Schema.Unknown), maxBody)

  const resolve = ItemReferences.make(stored)
  const decide = ApprovalResponses.make(plans)
  const results = yield* ClientResults.make

  /** The plan of the response that a request follows. One that is not stored can be decided about; its session is about to go. */
  const previousOf = Effect.fnUntraced(
    function* (caller: CallerName, id: string, asks: boolean) {
      const { plan_id } = yield* Effect.fromOption(refOf(id), () => new NotFound({ what: "response" }))
      const { store } = yield* stored.echo(caller, plan_id)
      if (asks && !store) return yield* new NotFound({ what: "response" })
      return yield* plans.get(caller, plan_id)
    },
    Effect.catchTag("NotFound", () => Effect.fail(ItemReferences.missing("previous_response_id", "response")))
  )

  /** The names of the agents and MCP servers that the plan of a request has. */
  const labelsOf = Effect.fnUntraced(function* (caller: CallerName, model: string, request: PlanRequest) {
    const name = model.split("/")[1] ?? defaultPreset
    const preset = (yield* plans.presets(caller)).find((preset) => preset.name === name)
    const agents = [...(preset?.agents ?? []), ...request.agents]
    const servers = [...(preset?.servers ?? []).map(({ terms }) => terms), ...request.mcp_servers]
    return [...agents, ...servers].map(({ name }) => name)
  })

  /** The plan to which the caller has brought something: what follows is a response of its own. */
  const join = Effect.fnUntraced(function* (caller: CallerName, plan_id: PlanId, calls: ReadonlySet<TaskId>) {
    const { echo, events } = yield* stored.told(caller, { plan_id, leg: 1 })
    const leg = events.legBehind(calls)
    const reading = yield* streams.read(caller, plan_id, 0)
    const headers = {
      "x-bowline-plan-id": plan_id,
      "x-bowline-session": reading.session_id
    }
    return { ...reading, leg, echo, headers }
  })

  /** Gives results to the plan that waits for them. Undefined if none does. */
  const resume = Effect.fnUntraced(function* (
    caller: CallerName,
    asked: ResponseRequest.ResponseRequest,
    previous: PlanId | undefined,
    isAgain: boolean
  ) {
    const { brought, request } = asked
    if (brought === undefined) return undefined
    const [first] = brought.results
    // Results alone are no question: what follows the response that made the calls is the one that they have made before.
    const comesAgain = isAgain || (previous !== undefined && request === undefined)
    const plan = yield* results.resume(caller, brought, { isAgain: comesAgain, of: previous, renamed: asked.renamed })
    if (plan === undefined) {
      if (request !== undefined) return undefined
      return yield* ItemReferences.missing(first?.path ?? brought.path, "call that waits")
    }
    const { calls } = yield* decide(caller, asked, plan.plan_id)
    const tasks = new Set([...calls, ...brought.results.map(({ task_id }) => task_id)])
    return { ...(yield* join(caller, plan.plan_id, tasks)), calls: tasks }
  })

  const start = Effect.fnUntraced(function* (
    caller: CallerName,
    asked: ResponseRequest.ResponseRequest,
    request: PlanRequest,
    sent: Pick<OpenAiPlans.Asking, "headers" | "route" | "body">
  ) {
    const created_at = Math.floor((yield* Clock.currentTimeMillis) / 1_000)
    const labels = yield* labelsOf(caller, asked.model, request)
    const echo: ResponseEcho = { ...asked.echo, created_at, labels }
    const { mayJoin, ...reading } = yield* openAi.start({
      ...asked,
      ...sent,
      request,
      echo,
      session_ttl_ms: undefined,
      leavesNothing: !echo.store
    })
    // The first try has stored its own.
    return { ...reading, leg: 1, echo: mayJoin ? yield* stored.echo(caller, reading.plan_id) : echo }
  })

  /** How the plan of a request is read, and the calls that were decided about with it. */
  const readingOf = Effect.fnUntraced(function* (
    caller: CallerName,
    asked: ResponseRequest.ResponseRequest,
    sent: Pick<OpenAiPlans.Asking, "headers" | "route" | "body">
  ) {
    const { request } = asked
    const previous =
      asked.previous === undefined
        ? undefined
        : yield* previousOf(caller, asked.previous, request !== undefined && asked.brought === undefined)
    const resumed = yield* resume(caller, asked, previous?.plan_id, OpenAiPlans.comesAgain(sent.headers))
    if (resumed !== undefined) return resumed
    const { calls, ignored, plan_id } = yield* decide(caller, asked, previous?.plan_id)
    if (request !== undefined) {
      const question = { ...request, ...sessionOf(previous) }
      const reading = yield* start(caller, { ...asked, ignored: [...asked.ignored, ...ignored] }, question, sent)
      return { ...reading, calls }
    }
    if (plan_id === undefined) return yield* Effect.die("The request neither asks nor decides")
    return { ...(yield* join(caller, plan_id, calls)), calls }
  })

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
    const plan = follower.follow(caller, reading)
    const events = new ResponseEvents(ref, echo)
    const waits = () => (background ? events.waitsForResults(calls) : events.waits(calls))
    // A plan that waits for results needs no reader.
    const leave = Effect.suspend(() => (events.waitsForResults(calls) ? Effect.void : plan.leaveRunning))
    const pause = DecisionPause.make(waits, leave, results.isIdle(caller, plan.plan_id))
    if (!asked.isStreamed) {
      return HttpServerResponse.setHeaders(yield* responseOf(caller, plan, events, pause, calls), headers)
    }
    PlanArrival.join(plan.connect, request)
    const seen = { events, after: -1, pause, brought: calls }
    return HttpServerResponse.setHeaders(ResponseStream.respond(seen, plan.frames), headers)
  })
})
