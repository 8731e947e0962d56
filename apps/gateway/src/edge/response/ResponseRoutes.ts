import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect, Option, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import * as PlanArrival from "../../http/PlanArrival.ts"
import { answer, invalid } from "../../http/Refusals.ts"
import { readForeignJson, readNothing } from "../../http/RequestBody.ts"
import * as DecisionPause from "../../http/DecisionPause.ts"
import * as ClientResults from "../leg/ClientResults.ts"
import * as OpenAiPlans from "../openai/OpenAiPlans.ts"
import * as ItemPage from "../openai/ItemPage.ts"
import * as NewResponses from "./NewResponses.ts"
import * as ResponseCompaction from "./ResponseCompaction.ts"
import { inputId } from "./ResponseItems.ts"
import * as ResponseTokens from "./ResponseTokens.ts"
import * as ResponseStream from "./ResponseStream.ts"
import { ResponseEvents } from "./ResponseEvents.ts"
import * as StoredResponses from "./StoredResponses.ts"

const none: ReadonlySet<string> = new Set()

/** OpenAI's Responses, as its clients ask for them. */
export const layer = HttpApiBuilder.group(
  Api,
  "responses",
  Effect.fnUntraced(function* (handlers) {
    const plans = yield* Plans
    const follower = yield* PlanFollower
    const forget = yield* OpenAiPlans.makeForget
    const stored = yield* StoredResponses.make
    const openAi = yield* OpenAiPlans.make
    const create = yield* NewResponses.make(stored, openAi)
    const count = yield* ResponseTokens.make(stored, openAi)
    const compact = yield* ResponseCompaction.make(stored, openAi)
    const results = yield* ClientResults.make
    const { maxBody } = yield* GatewayConfig
    const expectNothing = readNothing(maxBody)
    const readBody = readForeignJson(Schema.Record(Schema.String, Schema.Unknown), maxBody)

    return handlers
      .handleRaw("create", ({ headers, request }) =>
        create(request, PlanArrival.routeOf(headers)).pipe(PlanArrival.traced("/v1/responses", request), answer)
      )
      .handleRaw("inputTokens", ({ request }) =>
        readBody(request).pipe(
          Effect.flatMap(({ value }) => count(value)),
          Effect.map((counted) => HttpServerResponse.jsonUnsafe(counted)),
          answer
        )
      )
      .handleRaw("compact", ({ request }) =>
        readBody(request).pipe(
          Effect.flatMap(({ value }) => compact(value)),
          answer
        )
      )
      .handle("get", ({ params, query, request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const { echo, events, ref } = yield* stored.find(caller, params.id)
          if (query.stream !== "true") return HttpServerResponse.jsonUnsafe(events.response)
          const after = query.starting_after ?? -1
          const { last } = after === -1 ? { last: after } : yield* stored.replay(ref, echo)
          if (after > last) {
            const message = `Expected no more than the last sequence_number, ${last}`
            return yield* invalid([{ path: "starting_after", message }])
          }
          const followed = yield* follower.read(caller, ref.plan_id, 0)
          const shortCut = PlanArrival.join(followed, request)
          const files = stored.shown(caller)
          const again = new ResponseEvents(ref, echo, files)
          const isIdle = results.isIdle(caller, ref.plan_id)
          const pause = DecisionPause.make(() => again.waitsForResults(none), Effect.void, isIdle)
          const seen = { events: again, after, pause }
          return ResponseStream.respond(seen, { frames: files.before(followed.frames), shortCut })
        }).pipe(answer)
      )
      .handle("cancel", ({ params, request }) =>
        Effect.gen(function* () {
          yield* expectNothing(request)
          const caller = yield* Caller
          const { ref } = yield* stored.find(caller, params.id)
          yield* plans.cancel(caller, ref.plan_id)
          return HttpServerResponse.jsonUnsafe((yield* stored.told(caller, ref)).events.response)
        }).pipe(answer)
      )
      .handle("delete", ({ params }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const { ref } = yield* stored.find(caller, params.id)
          yield* forget(caller, ref.plan_id)
          return { id: params.id, object: "response" as const, deleted: true as const }
        }).pipe(answer)
      )
      .handle("inputItems", ({ params, query }) =>
        Effect.gen(function* () {
          const { echo, ref } = yield* stored.find(yield* Caller, params.id)
          const items = echo.input.map((item, index) => ({ ...item, id: inputId(ref.plan_id, index) }))
          const page = ItemPage.make(items, query)
          return yield* Option.match(page, {
            onNone: () => Effect.fail(invalid([{ path: "after", message: "Expected the id of an input item" }])),
            onSome: Effect.succeed
          })
        }).pipe(answer)
      )
  })
)
