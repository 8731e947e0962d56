import { ExternalSessionId } from "@bowline/domain/session/Session"
import { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/api/Authorization"
import { formatPath } from "@bowline/protocol/api/Issues"
import { defaultPreset } from "@bowline/runtime/config/Presets"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStreams } from "@bowline/runtime/plan/PlanStreams"
import { idempotency } from "@bowline/runtime/store/Idempotency"
import { PlanStore } from "@bowline/runtime/store/PlanStore"
import { Clock, Duration, Effect, Schema } from "effect"
import { type Headers, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { waitFor } from "../http/JsonAnswer.ts"
import * as PlanArrival from "../http/PlanArrival.ts"
import { answer, invalid, Refused } from "../http/Refusals.ts"
import { readSentJson } from "../http/RequestBody.ts"
import { ChatAnswer } from "./ChatAnswer.ts"
import * as ChatRequest from "./ChatRequest.ts"
import * as ChatStream from "./ChatStream.ts"
import * as SdkRetries from "./SdkRetries.ts"

const gatewayModel = "bowline"

const modelOf = (preset: string): string => (preset === defaultPreset ? gatewayModel : `${gatewayModel}/${preset}`)

/** A session that nobody has named is kept for a day. */
const stateless = { session_ttl_ms: Duration.toMillis("24 hours") }

const printable = "Expected 1..200 printable ASCII characters"
const isSessionId = Schema.is(ExternalSessionId)
const isKey = (key: string): boolean => /^[\x20-\x7e]{1,200}$/.test(key)

/** The session that the headers name. A chat UI asks for titles and tags in the background, with the id of the chat: those are not streamed. */
const sessionOf = (headers: Headers.Headers, isStreamed: boolean) => {
  const own = "x-bowline-session"
  const name = headers[own] === undefined && isStreamed ? "x-openwebui-chat-id" : own
  const session = headers[name]
  if (session === undefined || isSessionId(session)) return Effect.succeed(session)
  return Effect.fail(invalid([{ path: name, message: printable }]))
}

/** As many fields as a header can hold, in characters that it may have. */
const listed = (names: ReadonlyArray<string>): string =>
  names
    .slice(0, 32)
    .map((name) => encodeURIComponent(name.slice(0, 64).toWellFormed()).replaceAll(/%5B|%5D/g, decodeURIComponent))
    .join(", ")

/** Whether all that is wrong is that the session has a history already. */
const isAboutHistory = ({ issues }: InvalidRequest): boolean => issues.every(({ path }) => path[0] === "history")

/** The routes that clients of OpenAI's API call. */
export const layer = HttpApiBuilder.group(
  Api,
  "openai",
  Effect.fnUntraced(function* (handlers) {
    const plans = yield* Plans
    const streams = yield* PlanStreams
    const { maxBody, openai } = yield* GatewayConfig
    const created = Math.floor((yield* Clock.currentTimeMillis) / 1_000)
    const readBody = readSentJson(Schema.Record(Schema.String, Schema.Unknown), maxBody)

    /** What the caller may ask: the gateway itself, always, and presets. */
    const models = Effect.map(Effect.flatMap(Caller, plans.presets), (presets) => [
      gatewayModel,
      ...presets.flatMap(({ name }) => (name === defaultPreset ? [] : [modelOf(name)]))
    ])
    const describe = (id: string) => ({ id, object: "model" as const, created, owned_by: "bowline" as const })
    const find = Effect.fnUntraced(function* (id: string) {
      if ((yield* models).includes(id)) return describe(id)
      const detail = `There is no model ${JSON.stringify(id.slice(0, 200))}: GET /v1/models lists them`
      return yield* new Refused({ code: "model_not_found", detail })
    })

    const retries = SdkRetries.make({ plans, streams, store: yield* PlanStore })

    /** Starts the plan, or joins that of an earlier try. A session that has a history keeps its own: the caller's is another telling of it. */
    const start = (asked: SdkRetries.Asked, tried: SdkRetries.Tried) =>
      retries.start(asked, tried).pipe(
        Effect.catchTag("InvalidRequest", (refusal) =>
          isAboutHistory(refusal)
            ? retries.start({ ...asked, request: { ...asked.request, history: [] } }, tried)
            : Effect.fail(refusal)
        ),
        Effect.catchTag("InvalidRequest", ({ issues }) => {
          const named = issues.map(({ message, path }) => ({ path: formatPath(path), message }))
          return Effect.fail(invalid(ChatRequest.renamed(named)))
        })
      )

    return handlers
      .handle("models", () => Effect.map(models, (ids) => ({ object: "list" as const, data: ids.map(describe) })))
      .handle("model", ({ params }) => find(params.id).pipe(answer))
      .handle("presetModel", ({ params }) => find(`${params.family}/${params.preset}`).pipe(answer))
      .handleRaw("chat", ({ request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const { value } = yield* readBody(request)
          const chat = yield* Effect.mapError(Effect.fromResult(ChatRequest.decode(value)), invalid)
          yield* find(chat.model)
          const session = yield* sessionOf(request.headers, chat.isStreamed)
          const key = request.headers["idempotency-key"]
          if (key !== undefined && !isKey(key)) {
            return yield* invalid([{ path: "idempotency-key", message: printable }])
          }
          const preset = chat.model === gatewayModel ? {} : { preset: chat.model.slice(gatewayModel.length + 1) }
          const asked: SdkRetries.Asked = {
            caller,
            request: { ...chat.request, ...preset, ...(session === undefined ? stateless : { session_id: session }) },
            idempotency: key === undefined ? undefined : idempotency(key, value)
          }
          const tried = { count: request.headers["x-stainless-retry-count"], body: value, session }
          const { frames, overdue, ...ids } = yield* start(asked, tried)
          const head = {
            plan_id: ids.plan_id,
            created: Math.floor((yield* Clock.currentTimeMillis) / 1_000),
            model: chat.model
          }
          const withHeaders = HttpServerResponse.setHeaders({
            "x-bowline-plan-id": ids.plan_id,
            "x-bowline-session": session ?? ids.session_id,
            ...(chat.ignored.length > 0 && { "x-bowline-ignored": listed(chat.ignored) })
          })
          if (chat.isStreamed) {
            yield* PlanArrival.closeWhen(overdue, request)
            const options = { ...openai, includesUsage: chat.includesUsage }
            return withHeaders(ChatStream.respond(head, options, frames, plans.isDraining))
          }
          const chatAnswer = new ChatAnswer()
          const result = yield* waitFor({ plans, streams }, caller, ids, frames, chatAnswer.look)
          return withHeaders(chatAnswer.respond(head, result))
        }).pipe(PlanArrival.traced("/v1/chat/completions", request), answer)
      )
  })
)
