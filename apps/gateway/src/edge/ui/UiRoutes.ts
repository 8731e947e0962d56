import * as AgUiEvents from "@bowline/client/unstable/ag-ui/AgUiEvents"
import * as UiChunks from "@bowline/client/unstable/ai-sdk/UiChunks"
import type { Leg, UiFold } from "@bowline/client/unstable/ui/UiFold"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { Api, version } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { Plans } from "@bowline/runtime/plan/Plans"
import type { FollowedPlan } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect, Schema } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import * as PlanArrival from "../../http/PlanArrival.ts"
import { answer, invalid } from "../../http/Refusals.ts"
import { readNothing, readForeignJson } from "../../http/RequestBody.ts"
import * as ShownFiles from "../../http/ShownFiles.ts"
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

/** What the answer shows: the newest leg from where the user has said something behind the results, else behind these alone. */
const legOf = ({ brought }: UiRequest, { entry, until }: Leg): Leg =>
  brought === undefined || brought.texts.length === 0 ? { until } : { entry, until }

/** What UI libraries ask: the AI SDK's `useChat`, and clients of AG-UI. */
export const layer = HttpApiBuilder.group(
  Api,
  "ui",
  Effect.fnUntraced(function* (handlers) {
    const plans = yield* Plans
    const ui = yield* UiPlans.make
    const waiting = yield* WaitingPlans.make
    const results = yield* ClientResults.make
    const shown = yield* ShownFiles.make
    const { maxBody } = yield* GatewayConfig
    const readBody = readForeignJson(Schema.Record(Schema.String, Schema.Unknown), maxBody)
    const expectNothing = readNothing(maxBody)

    const respond = (
      { caller, request }: { readonly caller: CallerName; readonly request: HttpServerRequest.HttpServerRequest },
      plan: FollowedPlan,
      protocol: typeof chunks | typeof events,
      { files, fold }: ReturnType<typeof showing>,
      decided: ReadonlySet<string>
    ) => {
      return UiStream.respond(plan, {
        ...protocol,
        fold,
        decided,
        join: (plan) => ({ frames: files.before(plan.frames), shortCut: PlanArrival.join(plan, request) }),
        follow: (next) => ui.follow(caller, next),
        hold: (read, seen) => waiting.hold(caller, read, seen),
        isIdle: (read) => results.isIdle(caller, read)
      })
    }

    /** The files of an answer, and what folds its frames to events that show them. */
    const showing = (caller: CallerName, leg: Leg, make: (leg: Leg) => UiFold<object>) => {
      const files = shown(caller)
      const urlOf = (id: string) => {
        const file = files.of(FileId.make(id))
        return file && ShownFiles.urlOf(file)
      }
      return { files, fold: make({ ...leg, urlOf }) }
    }
    const chunksOf = (caller: CallerName, leg: Leg, messageId = leg.entry) =>
      showing(caller, leg, (leg) => UiChunks.make(leg, messageId))

    /** The client comes back to a plan. */
    const readAgain = (caller: CallerName, plan: PlanId) =>
      Effect.tap(ui.read(caller, plan), () => waiting.release(plan))

    /** Passes on what the client brings: decisions, and results. Returns the plan that goes on with them, and its calls. */
    const bring = Effect.fnUntraced(function* (caller: CallerName, asked: UiRequest) {
      const { calls, plan } = yield* ui.decide(caller, asked)
      const { brought } = asked
      const keyIn = brought === undefined || brought.texts.length === 0 ? undefined : ui.keyIn(caller)
      const resumed = brought && (yield* results.resume(caller, brought, { renamed: asked.renamed, keyIn }))
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
          const { isAgain, messageId, named, renamed, request: question, tools } = asked
          const { calls, given, plan } = yield* bring(caller, asked)
          if (question !== undefined && given.size === 0) {
            const route = PlanArrival.routeOf(headers)
            const started = yield* ui.start({
              caller,
              request: question,
              route,
              named,
              renamed,
              tools,
              messageId,
              isAgain
            })
            return respond({ caller, request }, started.plan, chunks, chunksOf(caller, started.leg), calls)
          }
          if (plan === undefined) return yield* Effect.die("The request neither asks nor decides")
          const { leg, plan: reading } = yield* readAgain(caller, plan)
          const behind = { ...legOf(asked, leg), decided: calls, given }
          const answer = chunksOf(caller, behind, behind.entry ?? messageId)
          return respond({ caller, request }, reading, chunks, answer, calls)
        }).pipe(PlanArrival.traced("/ui/chat", request), answer)
      )
      .handleRaw("resume", ({ params, request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const [running] = yield* ui.runningIn(caller, params.id)
          if (running === undefined) return HttpServerResponse.empty({ status: 204 })
          const { leg, plan } = yield* readAgain(caller, running.plan_id)
          return respond({ caller, request }, plan, chunks, chunksOf(caller, leg), none)
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
      .handle("capabilities", () =>
        Effect.gen(function* () {
          const agents = (yield* plans.presets(yield* Caller)).flatMap(({ agents }) => agents)
          const subagents = Array.from(new Set(agents.map(({ name }) => name)), (name) => ({ name }))
          return HttpServerResponse.jsonUnsafe({
            identity: { name: "Bowline", type: "bowline", version },
            transport: { streaming: true, resumable: false },
            ...AgUiEvents.capabilities,
            multiAgent: { ...AgUiEvents.capabilities.multiAgent, subagents }
          })
        }).pipe(answer)
      )
      .handleRaw("run", ({ headers, request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const { value } = yield* readBody(request)
          const asked = yield* Effect.mapError(Effect.fromResult(AgUiRequest.decode(value)), invalid)
          const { messages, named, renamed, request: question, runId, session, tools } = asked
          const { calls, given, plan } = yield* bring(caller, asked)
          const run = { threadId: session, runId, messages }
          const runOf = (leg: Leg) => showing(caller, leg, (leg) => AgUiEvents.make(run, leg))
          if ((question === undefined || given.size > 0) && plan !== undefined) {
            const { leg, plan: reading } = yield* readAgain(caller, plan)
            const behind = { ...legOf(asked, leg), decided: calls, given }
            return respond({ caller, request }, reading, events, runOf(behind), calls)
          }
          if (question === undefined) return yield* nothingWaits
          const route = PlanArrival.routeOf(headers)
          const { leg, plan: reading } = yield* ui.start({ caller, request: question, route, named, renamed, tools })
          return respond({ caller, request }, reading, events, runOf(leg), none)
        }).pipe(PlanArrival.traced("/agui", request), answer)
      )
  })
)
