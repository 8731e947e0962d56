import { A2aError } from "@bowline/a2a/unstable/server/A2aError"
import { resumableStreams } from "@bowline/a2a/unstable/server/ServerCard"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { direct, type Route } from "@bowline/runtime/remote/PeerClient"
import { Inbox } from "@bowline/runtime/plan/Inbox"
import * as QuestionFiles from "@bowline/runtime/unstable/file/QuestionFiles"
import { Sessions } from "@bowline/runtime/plan/Sessions"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect, identity, Result } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import * as PlanArrival from "../../http/PlanArrival.ts"
import { answer, RefusalShape } from "../../http/Refusals.ts"
import { refusalIn } from "./A2aEdge.ts"
import * as GatewayCards from "./GatewayCards.ts"
import { type Call, respond, respondFailure } from "./Binding.ts"
import * as PushCalls from "./PushCalls.ts"
import * as ReadCall from "./ReadCall.ts"
import * as SendCall from "./SendCall.ts"
import * as TaskCalls from "./TaskCalls.ts"
import * as TaskReader from "./TaskReader.ts"

/** A client that names extensions is told which of them are active, in the header that it uses: clients of 0.3 have another one. */
const withExtensions = ({ headers }: HttpServerRequest.HttpServerRequest) => {
  const name = ["a2a-extensions", "x-a2a-extensions"].find((name) => headers[name] !== undefined)
  if (name === undefined) return identity<HttpServerResponse.HttpServerResponse>
  const named = headers[name]?.split(",").map((uri) => uri.trim()) ?? []
  return HttpServerResponse.setHeader(name, named.includes(resumableStreams) ? resumableStreams : "")
}

/** The session of the task was deleted while the gateway worked on the answer. */
const gone = new A2aError({ error: "TaskNotFound", message: "The task was deleted" })

/** The routes that clients of A2A call, in both dialects and bindings. */
export const layer = HttpApiBuilder.group(
  Api,
  "a2a",
  Effect.fnUntraced(function* (handlers) {
    const services = yield* TaskReader.services
    const inbox = yield* Inbox
    const { takeQuestion, takeRequest } = yield* QuestionFiles.make
    const sessions = yield* SessionStore
    const changes = yield* Sessions
    const cards = yield* GatewayCards.make
    const { maxBody } = yield* GatewayConfig
    const push = yield* PushCalls.make(services)
    const read = ReadCall.make(maxBody)

    const perform = Effect.fnUntraced(function* (
      request: HttpServerRequest.HttpServerRequest,
      { preset }: ReadCall.Place,
      route: Route,
      { binding, operation, params }: Call
    ) {
      const caller = yield* Caller
      const presets = yield* services.plans.presets(caller)
      const own = presets.find(({ name }) => name === preset)
      if (preset !== undefined && own === undefined) {
        return yield* new A2aError({ error: "MethodNotFound", message: "There is no such agent" })
      }
      switch (operation) {
        case "send":
        case "stream": {
          const sending = { caller, preset, route, params, request }
          const sent = yield* SendCall.send(
            { ...services, inbox, takeQuestion, takeRequest },
            push,
            binding,
            sending,
            operation === "stream"
          )
          return sent._tag === "Stream" ? sent.response : respond(binding, sent.task)
        }
        case "subscribe":
          return yield* TaskCalls.subscribe(services, caller, binding, params, request)
        case "get":
          return respond(binding, yield* TaskCalls.get(services, caller, binding, params))
        case "cancel":
          return respond(binding, yield* TaskCalls.cancel(services, changes, caller, binding, params))
        case "list":
          return respond(binding, yield* TaskCalls.list(services, sessions, caller, binding, params))
        case "createPush":
          return respond(binding, yield* push.create(caller, binding, params))
        case "getPush":
          return respond(binding, yield* push.get(caller, binding, params))
        case "listPush":
          return respond(binding, yield* push.list(caller, binding, params))
        case "deletePush":
          return respond(binding, yield* push.remove(caller, binding, params))
        default:
          return respond(binding, cards.of(request, presets, own, binding.wire === "1.0" ? "1.0" : "0.3"))
      }
    })

    const handle = (request: HttpServerRequest.HttpServerRequest, route: Route) => {
      const place = ReadCall.placeOf(request.url)
      return Effect.gen(function* () {
        const call = yield* read(request, place)
        if (Result.isFailure(call)) return respondFailure(call.failure.binding, call.failure.failed)
        const { binding } = call.success
        return yield* perform(request, place, route, call.success).pipe(
          Effect.catchTag("NotFound", () => Effect.fail(gone)),
          Effect.catchTag("A2aError", (failed) => Effect.succeed(respondFailure(binding, failed))),
          answer,
          Effect.provideService(RefusalShape, refusalIn(binding))
        )
      }).pipe(answer, Effect.map(withExtensions(request)))
    }

    return handlers
      .handleRaw("read", ({ request }) => handle(request, direct))
      .handleRaw("remove", ({ request }) => handle(request, direct))
      .handleRaw("call", ({ headers, request }) => {
        const route = PlanArrival.routeOf(headers)
        return handle(request, route).pipe(PlanArrival.traced("/a2a", request))
      })
  })
)
