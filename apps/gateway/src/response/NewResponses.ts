import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Plan, PlanId } from "@bowline/domain/plan/Plan"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { ExternalSessionId } from "@bowline/domain/session/Session"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Caller } from "@bowline/protocol/api/Authorization"
import { defaultPreset } from "@bowline/runtime/config/Presets"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStreams } from "@bowline/runtime/plan/PlanStreams"
import type { PlanFrame } from "@bowline/runtime/store/EventRow"
import { Clock, Effect, Latch, Option, Schema } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { waitFor } from "../http/JsonAnswer.ts"
import * as PlanArrival from "../http/PlanArrival.ts"
import { invalid } from "../http/Refusals.ts"
import { readSentJson } from "../http/RequestBody.ts"
import * as OpenAiError from "../openai/OpenAiError.ts"
import * as ItemReferences from "./ItemReferences.ts"
import * as OpenAiPlans from "../openai/OpenAiPlans.ts"
import type { ResponseEcho } from "./ResponseEcho.ts"
import { ResponseEvents } from "./ResponseEvents.ts"
import { approvalOf, approvalRequestId, refOf } from "./ResponseItems.ts"
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

  /** The plan of the response that a request follows. */
  const previousOf = Effect.fnUntraced(function* (caller: CallerName, id: string) {
    const absent = () => Effect.fail(notThere("previous_response_id", "response"))
    const ref = refOf(id)
    if (Option.isNone(ref)) return yield* absent()
    const { plan_id } = ref.value
    return yield* Effect.andThen(stored.echo(caller, plan_id), plans.get(caller, plan_id)).pipe(
      Effect.catchTag("NotFound", absent)
    )
  })

  /** Passes the caller's decisions on, and returns the calls that waited for them, and their plan. */
  const decide = Effect.fnUntraced(function* (
    caller: CallerName,
    { decided }: ResponseRequest.ResponseRequest,
    previous: PlanId | undefined
  ) {
    const approvals = yield* Effect.forEach(decided, ({ approval_request_id, decision, path }) =>
      Option.match(approvalOf(approval_request_id), {
        onSome: (approval) =>
          approval.plan_id === (previous ?? approval.plan_id)
            ? Effect.succeed({ approval, decision })
            : Effect.fail(notThere(`${path}.approval_request_id`, "approval request in the previous response")),
        onNone: () => Effect.fail(notThere(`${path}.approval_request_id`, "approval request"))
      })
    )
    for (const { approval, decision } of approvals) {
      yield* plans.decide({ caller, isAdmin: false }, approval, decision)
    }
    const calls = new Set(approvals.map(({ approval }) => approval.task_id))
    return { calls, plan_id: approvals.at(-1)?.approval.plan_id }
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
    sent: Pick<OpenAiPlans.Asking, "headers" | "body">
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

  return Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
    const caller = yield* Caller
    const { value } = yield* readBody(request)
    const whole = yield* resolve(caller, value)
    const asked = yield* Effect.mapError(Effect.fromResult(ResponseRequest.decode(whole)), invalid)
    yield* openAi.expectModel(asked.model)
    const previous = asked.previous === undefined ? undefined : yield* previousOf(caller, asked.previous)
    const decided = yield* decide(caller, asked, previous?.plan_id)
    const sent = { headers: request.headers, body: value }
    const { request: question } = asked
    const reading = yield* question !== undefined
      ? start(caller, asked, { ...question, ...sessionOf(previous) }, sent)
      : decided.plan_id !== undefined
        ? join(caller, decided.plan_id, decided.calls)
        : Effect.die("The request neither asks nor decides")
    const { echo, frames, from, headers, leaveRunning, overdue, plan_id, session_id } = reading
    const events = new ResponseEvents({ plan_id, from }, echo)
    if (asked.isStreamed) {
      yield* PlanArrival.closeWhen(overdue, request)
      const stream = ResponseStream.respond({ events, after: -1 }, frames, plans.isDraining)
      return HttpServerResponse.setHeaders(stream, headers)
    }
    if (asked.echo.background) {
      const { response } = yield* stored.replay({ plan_id, from }, echo)
      return HttpServerResponse.jsonUnsafe(response, { headers })
    }
    const mayWait = Latch.makeUnsafe(false)
    const look = (frame: PlanFrame) => {
      events.next(frame)
      if (events.waits(decided.calls)) mayWait.openUnsafe()
    }
    // Frames come many at a time: what a later one has decided already is not asked again.
    const asks = Effect.map(mayWait.await, () => {
      mayWait.closeUnsafe()
      return events.waits(decided.calls)
    })
    yield* Effect.raceFirst(
      waitFor({ plans, streams }, caller, { plan_id, session_id }, frames, look),
      // The decision comes in another request.
      Effect.andThen(Effect.repeat(asks, { until: (waits) => waits }), leaveRunning)
    )
    if (events.failure === undefined) return HttpServerResponse.jsonUnsafe(events.response, { headers })
    const failed = OpenAiError.fromFailure(events.failure)
    return HttpServerResponse.jsonUnsafe(failed.body, {
      status: failed.status,
      headers: { ...failed.headers, ...headers }
    })
  })
})
