import { PlanId } from "@bowline/domain/plan/Plan"
import { AskBody } from "@bowline/domain/plan/PlanRequest"
import { GivenFork } from "@bowline/domain/unstable/plan/Fork"
import { InvalidRequest } from "@bowline/domain/plan/Refusal"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { idempotency } from "@bowline/runtime/unstable/store/Idempotency"
import * as QuestionFiles from "@bowline/runtime/unstable/file/QuestionFiles"
import { Plans } from "@bowline/runtime/plan/Plans"
import * as Forks from "@bowline/runtime/unstable/plan/Forks"
import * as PlanExport from "@bowline/runtime/unstable/record/PlanExport"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { ownersOf } from "../http/BearerAuthorization.ts"
import * as ReadingAnswer from "../http/ReadingAnswer.ts"
import * as PlanArrival from "../http/PlanArrival.ts"
import * as SseAnswer from "../http/SseAnswer.ts"
import { answer, idOf } from "../http/Refusals.ts"
import { readNothing, readSentJson } from "../http/RequestBody.ts"

/** In a thread: the record of a long plan takes a while. */
const compress = promisify<string, Buffer>(gzip)

const planId = idOf(PlanId, "plan")

/** Reports the issues under the name of the parameter that the caller has sent. */
const underName = (name: string, { issues }: InvalidRequest) =>
  new InvalidRequest({ issues: issues.map((issue) => ({ ...issue, path: [name] })) })

/** A fork names its model in a field of its own, too. */
const inFork = (hasModel: boolean, { code, issues }: InvalidRequest) => {
  const isOfModel = ({ path }: (typeof issues)[number]) => hasModel && path.join(".") === "preferences.model"
  return new InvalidRequest({
    ...(code !== undefined && { code }),
    issues: issues.map((issue) => (isOfModel(issue) ? { ...issue, path: ["model"] } : issue))
  })
}

/** A request for a plan. */
interface Question {
  readonly request: HttpServerRequest.HttpServerRequest
  readonly headers: Parameters<typeof PlanArrival.routeOf>[0] & { readonly "idempotency-key"?: string }
}

export const layer = HttpApiBuilder.group(
  Api,
  "plans",
  Effect.fnUntraced(function* (handlers) {
    const plans = yield* Plans
    const streams = yield* PlanStreams
    const answerWith = yield* ReadingAnswer.make
    const findOwners = yield* ownersOf
    const files = yield* FileStore
    const stores = { store: yield* PlanStore, sessions: yield* SessionStore, inboxes: yield* InboxStore, files }
    const { maxBody } = yield* GatewayConfig
    const expectNothing = readNothing(maxBody)
    const readRequest = readSentJson(AskBody, maxBody)
    const readFork = readSentJson(GivenFork, maxBody)
    const makeFork = yield* Forks.make
    const { takeQuestion } = yield* QuestionFiles.make
    /** The request as plans have it: its files are stored, and nothing else has their bytes from here on. */
    const withFiles = Effect.fnUntraced(function* (caller: CallerName, value: AskBody, sent: unknown) {
      if (typeof value.question === "string") return { request: { ...value, question: value.question }, sent }
      const whole = yield* takeQuestion(caller, value.question)
      return { request: { ...value, ...whole }, sent: Object.assign({}, sent, whole) }
    })

    const start = Effect.fnUntraced(function* ({ headers, request }: Question) {
      const caller = yield* Caller
      const route = PlanArrival.routeOf(headers)
      const { sent, value } = yield* readRequest(request)
      const key = headers["idempotency-key"]
      const same = key === undefined ? undefined : idempotency(key, sent)
      const asked = { caller, ...(yield* withFiles(caller, value, sent)), route, idempotency: same }
      return yield* answerWith(caller, streams.start(asked), request)
    })

    const fork = Effect.fnUntraced(function* (plan: PlanId, { headers, request }: Question) {
      const caller = yield* Caller
      const { sent, value } = yield* readFork(request)
      const { question, ...wanted } = value
      const whole = question === undefined ? undefined : yield* takeQuestion(caller, question)
      const forked = yield* makeFork(caller, plan, { ...wanted, files, whole })
      const key = headers["idempotency-key"]
      const starting = streams
        .start({
          caller,
          ...forked,
          route: PlanArrival.routeOf(headers),
          idempotency: key === undefined ? undefined : idempotency(key, { plan, sent })
        })
        .pipe(
          Effect.mapError((error) =>
            error._tag === "InvalidRequest" ? inFork(value.model !== undefined, error) : error
          )
        )
      return yield* answerWith(caller, starting, request)
    })

    return handlers
      .handleRaw("start", (asked) => start(asked).pipe(PlanArrival.traced("/plan", asked.request), answer))
      .handleRaw("check", ({ headers, request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const { sent, value } = yield* readRequest(request)
          const { request: asked } = yield* withFiles(caller, value, sent)
          yield* streams.check({ caller, request: asked, route: PlanArrival.routeOf(headers) })
          return HttpServerResponse.empty({ status: 204 })
        }).pipe(answer)
      )
      .handle("list", ({ query: { caller, cursor, limit, session_id, state, ...given } }) =>
        Effect.gen(function* () {
          const filter = {
            ...given,
            ...(session_id !== undefined && { session: session_id }),
            ...(state !== undefined && { states: state })
          }
          const page = { limit, ...(cursor !== undefined && { cursor }) }
          const { items, next } = yield* plans.list(yield* findOwners(caller), filter, page)
          return { plans: items, next_cursor: next }
        }).pipe(answer)
      )
      .handle("get", ({ params }) =>
        Effect.gen(function* () {
          return yield* plans.get(yield* Caller, yield* planId(params.id))
        }).pipe(answer)
      )
      .handle("events", ({ params, headers, query, request }) =>
        Effect.gen(function* () {
          const plan_id = yield* planId(params.id)
          const header = headers["last-event-id"]
          const named = header === undefined ? "after" : "last-event-id"
          const reading = yield* streams
            .read(yield* Caller, plan_id, header ?? query.after ?? 0)
            .pipe(Effect.mapError((error) => (error._tag === "InvalidRequest" ? underName(named, error) : error)))
          return SseAnswer.fromLater(reading, request)
        }).pipe(answer)
      )
      .handleRaw("export", ({ params }) =>
        Effect.gen(function* () {
          const plan_id = yield* planId(params.id)
          const lines = yield* PlanExport.linesOf(stores, yield* Caller, plan_id)
          const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("")
          const body = yield* Effect.promise(() => compress(text))
          return HttpServerResponse.uint8Array(body, {
            contentType: "application/gzip",
            headers: { "content-disposition": `attachment; filename="${plan_id}.bowline"` }
          })
        }).pipe(answer)
      )
      .handleRaw("fork", ({ params, ...asked }) =>
        Effect.flatMap(planId(params.id), (plan) => fork(plan, asked)).pipe(
          PlanArrival.traced("/plans/:id/fork", asked.request),
          answer
        )
      )
      .handle("cancel", ({ params, request }) =>
        Effect.gen(function* () {
          yield* expectNothing(request)
          return yield* plans.cancel(yield* Caller, yield* planId(params.id))
        }).pipe(answer)
      )
  })
)
