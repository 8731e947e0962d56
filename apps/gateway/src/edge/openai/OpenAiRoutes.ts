import { Metadata } from "@bowline/domain/plan/PlanRequest"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { Plans } from "@bowline/runtime/plan/Plans"
import { FileLinks, rootsOf } from "@bowline/runtime/unstable/file/FileLinks"
import { PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Array as Arr, Clock, Duration, Effect, Result, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import { waitFor } from "../../http/JsonAnswer.ts"
import * as PlanArrival from "../../http/PlanArrival.ts"
import { answer, invalid } from "../../http/Refusals.ts"
import { readForeignJson } from "../../http/RequestBody.ts"
import * as DecisionPause from "../../http/DecisionPause.ts"
import * as ShownFiles from "../../http/ShownFiles.ts"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import * as ClientResults from "../leg/ClientResults.ts"
import { ChatLeg } from "./ChatLeg.ts"
import { ChatAnswer } from "./ChatAnswer.ts"
import * as ChatRequest from "./ChatRequest.ts"
import * as ChatStream from "./ChatStream.ts"
import * as OpenAiPlans from "./OpenAiPlans.ts"
import * as StoredChats from "./StoredChats.ts"

const listParameters = ["after", "limit", "model", "order"]

/** The entries of metadata that a list is asked for, `metadata[<key>]=<value>`. Refuses every parameter that a list does not have. */
const metadataIn = Effect.fnUntraced(function* (url: string) {
  const [entries, unknown] = Arr.partition(new URL(url, "http://gateway").searchParams, ([path, value]) => {
    const key = /^metadata\[([^]+)\]$/.exec(path)?.[1]
    return key === undefined ? Result.fail(path) : Result.succeed([key, value] as const)
  })
  const wrong = unknown.filter((path) => !listParameters.includes(path))
  if (wrong.length === 0) return entries
  const message = `Expected ${listParameters.join(", ")} or metadata[<key>]`
  return yield* invalid(wrong.map((path) => ({ path, message })))
})

/** Models and Chat Completions, as clients of OpenAI's API ask for them. */
export const layer = HttpApiBuilder.group(
  Api,
  "openai",
  Effect.fnUntraced(function* (handlers) {
    const plans = yield* Plans
    const { root } = yield* FileLinks
    const follower = yield* PlanFollower
    const openAi = yield* OpenAiPlans.make
    const results = yield* ClientResults.make
    const { maxBody, openai } = yield* GatewayConfig
    const stored = yield* StoredChats.make
    const shown = yield* ShownFiles.make
    const forget = yield* OpenAiPlans.makeForget
    const since = Math.floor((yield* Clock.currentTimeMillis) / 1_000)
    const readBody = readForeignJson(Schema.Record(Schema.String, Schema.Unknown), maxBody)

    const readDescription = readForeignJson(Schema.Struct({ metadata: Schema.NullOr(Metadata) }), maxBody)

    const describe = (id: string) => ({ id, object: "model" as const, created: since, owned_by: "bowline" as const })
    const find = (id: string) => Effect.as(openAi.expectModel(id), describe(id))

    return handlers
      .handle("models", () =>
        Effect.map(openAi.models, (ids) => ({ object: "list" as const, data: ids.map(describe) }))
      )
      .handle("model", ({ params }) => find(params.id).pipe(answer))
      .handle("presetModel", ({ params }) => find(`${params.family}/${params.preset}`).pipe(answer))
      .handle("storedChats", ({ query, request }) =>
        Effect.gen(function* () {
          const metadata = yield* metadataIn(request.url)
          return HttpServerResponse.jsonUnsafe(yield* stored.list(yield* Caller, { ...query, metadata }))
        }).pipe(answer)
      )
      .handle("storedChat", ({ params }) =>
        Effect.gen(function* () {
          return HttpServerResponse.jsonUnsafe((yield* stored.find(yield* Caller, params.id)).completion)
        }).pipe(answer)
      )
      .handleRaw("describeChat", ({ params, request }) =>
        Effect.gen(function* () {
          const { value } = yield* readDescription(request)
          return HttpServerResponse.jsonUnsafe(yield* stored.describe(yield* Caller, params.id, value.metadata ?? {}))
        }).pipe(answer)
      )
      .handle("chatMessages", ({ params, query }) =>
        Effect.gen(function* () {
          return HttpServerResponse.jsonUnsafe(yield* stored.messages(yield* Caller, params.id, query))
        }).pipe(answer)
      )
      .handle("forgetChat", ({ params }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          yield* forget(caller, (yield* stored.find(caller, params.id)).plan_id)
          return { id: params.id, object: "chat.completion.deleted" as const, deleted: true as const }
        }).pipe(answer)
      )
      .handleRaw("chat", ({ headers: sent, request }) =>
        Effect.gen(function* () {
          const { value } = yield* readBody(request)
          const chat = yield* Effect.mapError(
            Effect.fromResult(ChatRequest.decode(value, yield* rootsOf(root))),
            invalid
          )
          const created = Math.floor((yield* Clock.currentTimeMillis) / 1_000)
          const { isStored, model, onRetract = openai.onRetract, request: asked } = chat
          const { brought, headers, ...reading } = yield* openAi.start({
            ...chat,
            headers: request.headers,
            route: PlanArrival.routeOf(sent),
            body: value,
            session_ttl_ms: isStored ? undefined : Duration.toMillis("24 hours"),
            ...(isStored && { echo: () => StoredChats.echo({ created, model, metadata: asked.metadata }) })
          })
          const caller = yield* Caller
          const followed = follower.follow(caller, reading)
          const files = shown(caller)
          const plan = { ...followed, frames: files.before(followed.frames) }
          const leg = new ChatLeg(brought, files)
          const isIdle = results.isIdle(caller, plan.plan_id)
          // Until it comes back, nobody has to read a plan that answers in legs.
          const pause = DecisionPause.make(() => leg.waits, Effect.void, isIdle)
          const head = { plan_id: plan.plan_id, created, model }
          if (chat.isStreamed) {
            const told = { frames: plan.frames, shortCut: PlanArrival.join(plan, request) }
            const options = { ...openai, onRetract, includesUsage: chat.includesUsage }
            const stream = ChatStream.respond(head, options, told, leg, pause)
            return HttpServerResponse.setHeaders(stream, headers)
          }
          const chatAnswer = new ChatAnswer(leg)
          const look = (frame: PlanFrame) => {
            chatAnswer.look(frame)
            pause.look()
          }
          const result = yield* Effect.raceFirst(
            waitFor(plans, caller, plan, look),
            Effect.as(pause.reached, undefined)
          )
          return HttpServerResponse.setHeaders(chatAnswer.respond(head, result), headers)
        }).pipe(PlanArrival.traced("/v1/chat/completions", request), answer)
      )
  })
)
