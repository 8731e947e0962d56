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
import { Clock, Effect, Option, Schema } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import * as DecisionPause from "../../http/DecisionPause.ts"
import { waitFor } from "../../http/JsonAnswer.ts"
import * as PlanArrival from "../../http/PlanArrival.ts"
import { invalid } from "../../http/Refusals.ts"
import { readSentJson } from "../../http/RequestBody.ts"
import * as OpenAiError from "../openai/OpenAiError.ts"
import * as ItemReferences from "./ItemReferences.ts"
import * as OpenAiPlans from "../openai/OpenAiPlans.ts"
import type { ResponseEcho } from "./ResponseEcho.ts"
import { ResponseEvents } from "./ResponseEvents.ts"
import { approvalOf, approvalRequestId, refOf } from "./ResponseItems.ts"
import type { Decided } from "./ResponseInput.ts"
import * as ResponseRequest from "./ResponseRequest.ts"
import * as ResponseStream from "./ResponseStream.ts"
import type { StoredResponses } from "./StoredResponses.ts"

const notThere = (path: string, what: string) => invalid([{ path, message: `There is no such ${what}` }])

/** The session of the response that a request follows. */
const sessionOf = (previous: Pick<Plan, "session_id" | "external_session_id"> | undefined) =>
  previous === undefined
    ? {}
    : { session_id: previous.external_session_id ?? ExternalSessionId.make(previous.session_id) }

/** Starts plans for `POST /v1/responses`, and answers with their responses. */
export const make = Effect.fnUntraced(function* (stored: StoredResponses) {
  const plans = yield* Plans
  const streams = yield* PlanStreams
  const openAi = yield* OpenAiPlans.make
  const { maxBody } = yield* GatewayConfig
  const readBody = readSentJson(Schema.Record(Schema.String, Schema.Unknown), maxBody)

  const resolve = ItemReferences.make(stored)

  /** The plan of the response that a request follows. One that is not stored can be decided about; its session is about to go. */
  const previousOf = Effect.fnUntraced(
    function* (caller: CallerName, id: string, asks: boolean) {
      const { plan_id } = yield* Effect.fromOption(refOf(id), () => new NotFound({ what: "response" }))
      const { store } = yield* stored.echo(caller, plan_id)
      if (asks && !store) return yield* new NotFound({ what: "response" })
      return yield* plans.get(caller, plan_id)
    },
    Effect.catchTag("NotFound", () => Effect.fail(notThere("previous_response_id", "response")))
  )

  const decideOne = Effect.fnUntraced(function* (
    caller: CallerName,
    previous: PlanId | undefined,
    { decision, ...given }: Decided
  ) {
    const path = `${given.path}.approval_request_id`
    const approval = Option.getOrUndefined(approvalOf(given.approval_request_id))
    if (approval === undefined) return yield* notThere(path, "approval request")
    if (previous !== undefined && approval.plan_id !== previous) {
      return yield* notThere(path, "approval request in the previous response")
    }
    yield* plans.decide({ caller, isAdmin: false }, approval, decision)
    return approval.task_id
  })

  /**
   * Passes the caller's decisions on, and returns the calls that waited for them, and the plan of the last one. A client that keeps the
   * history itself sends those of earlier turns again: those that cannot be made any more, such as that of a plan that was deleted, are left
   * out. Nothing but the last decision of a request without a question is new for sure.
   */
  const decide = Effect.fnUntraced(function* (
    caller: CallerName,
    { decided, request }: ResponseRequest.ResponseRequest,
    previous: PlanId | undefined
  ) {
    const plansOf = decided.map(({ approval_request_id }) =>
      Option.getOrUndefined(Option.map(approvalOf(approval_request_id), ({ plan_id }) => plan_id))
    )
    const calls = new Set<TaskId>()
    const ignored: Array<string> = []
    for (const [index, one] of decided.entries()) {
      const isEarlier = request !== undefined || plansOf[index] !== plansOf.at(-1)
      const leaveOut = () => Effect.sync(() => void ignored.push(one.path))
      const deciding = Effect.map(decideOne(caller, previous, one), (call) => void calls.add(call))
      if (isEarlier) yield* Effect.catchTag(deciding, ["NotFound", "ApprovalConflict", "Refused"], leaveOut)
      else yield* deciding
    }
    return { calls, ignored, plan_id: plansOf.at(-1) }
  })

  /** The names of the agents and MCP servers that the plan of a request has. */
  const labelsOf = Effect.fnUntraced(function* (caller: CallerName, model: string, request: PlanRequest) {
    const name = model.split("/")[1] ?? defaultPreset
    const preset = (yield* plans.presets(caller)).find((preset) => preset.name === name)
    const agents = [...(preset?.agents ?? []), ...request.agents]
    const servers = [...(preset?.servers ?? []).map(({ terms }) => terms), ...request.mcp_servers]
    return [...agents, ...servers].map(({ name }) => name)
  })

  /** The plan that the caller has decided about: what follows is a response of its own. */
  const join = Effect.fnUntraced(function* (caller: CallerName, plan_id: PlanId, calls: ReadonlySet<TaskId>) {
    const echo = yield* stored.echo(caller, plan_id)
    const seen = yield* stored.replay({ plan_id, from: 0 }, echo)
    const from = seen.behind(new Set(Array.from(calls, (call) => approvalRequestId(plan_id, call))))
    const reading = yield* streams.read(caller, plan_id, 0)
    const headers = { "x-bowline-plan-id": plan_id, "x-bowline-session": reading.session_id }
    return { ...reading, from, echo, headers }
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
      session_ttl_ms: echo.store ? undefined : 0
    })
    // The first try has stored its own.
    return { ...reading, from: 0, echo: mayJoin ? yield* stored.echo(caller, reading.plan_id) : echo }
  })

  return Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, route: Route) {
    const caller = yield* Caller
    const { value } = yield* readBody(request)
    const whole = yield* resolve(caller, value)
    const asked = yield* Effect.mapError(Effect.fromResult(ResponseRequest.decode(whole)), invalid)
    yield* openAi.expectModel(asked.model)
    const previous =
      asked.previous === undefined ? undefined : yield* previousOf(caller, asked.previous, asked.request !== undefined)
    const decided = yield* decide(caller, asked, previous?.plan_id)
    const sent = { headers: request.headers, route, body: value }
    const { request: question } = asked
    const reading = yield* question !== undefined
      ? start(
          caller,
          { ...asked, ignored: [...asked.ignored, ...decided.ignored] },
          { ...question, ...sessionOf(previous) },
          sent
        )
      : decided.plan_id !== undefined
        ? join(caller, decided.plan_id, decided.calls)
        : Effect.die("The request neither asks nor decides")
    const { echo, frames, from, headers, leaveRunning, connect, plan_id, session_id } = reading
    const events = new ResponseEvents({ plan_id, from }, echo)
    const pause = DecisionPause.make(() => events.waits(decided.calls), leaveRunning)
    if (asked.isStreamed) {
      PlanArrival.join(connect, request)
      const seen = { events, after: -1, ...(!asked.echo.background && { pause }) }
      return HttpServerResponse.setHeaders(ResponseStream.respond(seen, frames, plans.isDraining), headers)
    }
    if (asked.echo.background) {
      const { response } = yield* stored.replay({ plan_id, from }, echo)
      return HttpServerResponse.jsonUnsafe(response, { headers })
    }
    const look = (frame: PlanFrame) => {
      events.next(frame)
      pause.look()
    }
    yield* Effect.raceFirst(waitFor({ plans, streams }, caller, { plan_id, session_id }, frames, look), pause.reached)
    if (events.failure === undefined) return HttpServerResponse.jsonUnsafe(events.response, { headers })
    const failed = OpenAiError.fromFailure(events.failure)
    return HttpServerResponse.jsonUnsafe(failed.body, {
      status: failed.status,
      headers: { ...failed.headers, ...headers }
    })
  })
})
