import * as AgUiEvents from "@bowline/client/unstable/ag-ui/AgUiEvents"
import * as UiChunks from "@bowline/client/unstable/ai-sdk/UiChunks"
import type { UiFold } from "@bowline/client/unstable/ui/UiFold"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import type { FollowedPlan } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect, Schema } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import * as PlanArrival from "../../http/PlanArrival.ts"
import { answer, invalid } from "../../http/Refusals.ts"
import { readNothing, readSentJson } from "../../http/RequestBody.ts"
import * as ClientResults from "../leg/ClientResults.ts"
import type { UiRequest } from "./UiRequest.ts"
import * as AgUiRequest from "./AgUiRequest.ts"
import * as UiChatRequest from "./UiChatRequest.ts"
import * as UiPlans from "./UiPlans.ts"
import * as UiStream from "./UiStream.ts"
import * as WaitingPlans from "./WaitingPlans.ts"

const none: ReadonlySet<string> = new Set()

/** The AI SDK's name of its stream, and how that ends. */
const chunks = { headers: { "x-vercel-ai-ui-message-stream": "v1" }, tail: "data: [DONE]\n\n" }
const events = { headers: {}, tail: "" }

const nothingWaits = invalid([
  { path: "resume", message: "Nothing waits for an answer any more: ask with the user's message as the last one" }
])

/** What UI libraries ask: the AI SDK's `useChat`, and clients of AG-UI. */
export const layer = HttpApiBuilder.group(
  Api,
  "ui",
  Effect.fnUntraced(function* (handlers) {
    const ui = yield* UiPlans.make
    const waiting = yield* WaitingPlans.make
    const results = yield* ClientResults.make
    const { maxBody } = yield* GatewayConfig
    const readBody = readSentJson(Schema.Record(Schema.String, Schema.Unknown), maxBody)
    const expectNothing = readNothing(maxBody)

    const respond = (
      { caller, request }: { readonly caller: CallerName; readonly request: HttpServerRequest.HttpServerRequest },
      plan: FollowedPlan,
      protocol: typeof chunks | typeof events,
      fold: UiFold<object>,
      decided: ReadonlySet<string>
    ) => {
      PlanArrival.join(plan.connect, request)
      return UiStream.respond(plan, {
        ...protocol,
        fold,
        decided,
        hold: (seen) => waiting.hold(caller, plan.plan_id, seen),
        isIdle: results.isIdle(caller, plan.plan_id)
      })
    }

    /** The client comes back to a plan. */
    const readAgain = (caller: CallerName, plan: PlanId) =>
      Effect.tap(ui.read(caller, plan), () => waiting.release(plan))

    /** Passes on what the client brings: decisions, and results. Returns the plan that goes on with them, and its calls. */
    const bring = Effect.fnUntraced(function* (caller: CallerName, asked: UiRequest) {
      const { calls, plan } = yield* ui.decide(caller, asked)
      const { brought } = asked
      const resumed = brought && (yield* results.resume(caller, brought, false))
      if (resumed === undefined) return { calls, plan, given: none }
      const given: ReadonlySet<string> = new Set((brought?.results ?? []).map(({ task_id }) => task_id))
      return { calls, plan: resumed.plan_id, given }
    })

    return handlers
      .handleRaw("chat", ({ headers, request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const { value } = yield* readBody(request)
          const asked = yield* Effect.mapError(Effect.fromResult(UiChatRequest.decode(value)), invalid)
          const { isAgain, messageId, renamed, request: question } = asked
          const asking = question && {
            caller,
            request: question,
            route: PlanArrival.routeOf(headers),
            renamed,
            messageId,
            isAgain
          }
          const { calls, given, plan } = yield* bring(caller, asked)
          const reading = yield* asking !== undefined && given.size === 0
            ? ui.start(asking)
            : plan !== undefined
              ? readAgain(caller, plan)
              : Effect.die("The request neither asks nor decides")
          return respond({ caller, request }, reading, chunks, UiChunks.make(calls, given), calls)
        }).pipe(PlanArrival.traced("/ui/chat", request), answer)
      )
      .handleRaw("resume", ({ params, request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const [running] = yield* ui.runningIn(caller, params.id)
          if (running === undefined) return HttpServerResponse.empty({ status: 204 })
          const reading = yield* readAgain(caller, running.plan_id)
          return respond({ caller, request }, reading, chunks, UiChunks.make(), none)
        }).pipe(answer)
      )
      .handleRaw("stop", ({ params, request }) =>
        Effect.gen(function* () {
          yield* expectNothing(request)
          const caller = yield* Caller
          const running = yield* ui.runningIn(caller, params.id)
          yield* Effect.forEach(running, ({ plan_id }) => ui.cancel(caller, plan_id), { discard: true })
          return HttpServerResponse.empty({ status: 204 })
        }).pipe(answer)
      )
      .handleRaw("run", ({ headers, request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const { value } = yield* readBody(request)
          const asked = yield* Effect.mapError(Effect.fromResult(AgUiRequest.decode(value)), invalid)
          const { messages, renamed, request: question, runId, session } = asked
          const { calls, given, plan } = yield* bring(caller, asked)
          const joins = (question === undefined || given.size > 0) && plan !== undefined
          const behind = joins ? calls : none
          const fold = AgUiEvents.make({ threadId: session, runId, messages }, behind, given)
          if (joins) return respond({ caller, request }, yield* readAgain(caller, plan), events, fold, calls)
          if (question === undefined) return yield* nothingWaits
          const reading = yield* ui.start({ caller, request: question, route: PlanArrival.routeOf(headers), renamed })
          return respond({ caller, request }, reading, events, fold, none)
        }).pipe(PlanArrival.traced("/agui", request), answer)
      )
  })
)
