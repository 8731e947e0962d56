import { Api } from "@bowline/protocol/api/Api"
import { fromSchema } from "@bowline/protocol/unstable/api/Issues"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { Cause, Effect } from "effect"
import { HttpRouter, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApi, HttpApiError } from "effect/http-api"
import * as Entrance from "./Entrance.ts"
import { internal, invalid, Refused, RefusalShape, RequestId, respond } from "./Refusals.ts"

const isSane = (id: string | undefined): id is string => id !== undefined && /^[\x20-\x7e]{1,128}$/.test(id)

// Like the router, this ignores case, trailing slashes and repeated slashes.
const routes: Array<{ readonly method: string; readonly pattern: RegExp }> = []
HttpApi.reflect(Api, {
  onGroup: () => undefined,
  onEndpoint: ({ endpoint: { method, path } }) =>
    void routes.push({
      method,
      pattern: new RegExp(
        `^${path
          .replaceAll(/:[^/]+/g, "[^/]+")
          .replaceAll("/", "/+")
          .replace("/+*", ".*")}/*$`,
        "i"
      )
    })
})

/** No route has this method and path. */
const notRouted = ({ method, url }: HttpServerRequest.HttpServerRequest): Refused => {
  const [path = ""] = url.split("?")
  const methods = [...new Set(routes.filter(({ pattern }) => pattern.test(path)).map((route) => route.method))]
  // If the route has this method, the router could not decode the path.
  return methods.length === 0 || methods.includes(method)
    ? // A browser may get a page of the console instead.
      new Refused({ code: "not_found", detail: "There is no such route", headers: { vary: "Accept" } })
    : new Refused({
        code: "method_not_allowed",
        detail: `This route has ${methods.join(", ")}, not ${method}`,
        headers: { allow: methods.join(", ") }
      })
}

const refusalOf = (error: unknown): Refused | undefined => {
  if (HttpServerError.isHttpServerError(error) && error.reason._tag === "RouteNotFound") {
    return notRouted(error.reason.request)
  }
  // A response that cannot be encoded is the gateway's fault; everything else is the caller's.
  return HttpApiError.HttpApiSchemaError.is(error) && error.kind !== "Body" && error.kind !== "ResponseHeaders"
    ? invalid(fromSchema(error.cause))
    : undefined
}

/** The gateway interrupts what has no answer yet when it closes. */
const closing = new Refused({
  code: "draining",
  detail: "The gateway shut down before it had an answer. What was asked for may be done"
})

const isLeft = <E>({ reasons }: Cause.Cause<E>): boolean =>
  reasons.some(({ annotations }) => annotations.has(HttpServerError.ClientAbort.key))

/** Answers what no handler answers: an unknown route, a wrong query, a bug, or the end of the gateway. A caller that has left gets nothing. */
const rescue = <E>(cause: Cause.Cause<E>) => {
  if (Cause.hasInterruptsOnly(cause)) return isLeft(cause) ? Effect.failCause(cause) : respond(closing)
  const refused = refusalOf(Cause.squash(cause))
  return refused === undefined
    ? Effect.andThen(Effect.logError("request_failed", cause), respond(internal))
    : respond(refused)
}

/** A protocol that is spoken under a path besides the gateway's own: how its requests are read, and how they are refused. */
export interface Edge {
  readonly path: RegExp
  readonly refusal: (typeof RefusalShape)["Service"]
  readonly adapt: (request: HttpServerRequest.HttpServerRequest) => HttpServerRequest.HttpServerRequest
}

const within = <E, R>(
  handled: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>,
  { adapt, refusal }: Edge,
  request: HttpServerRequest.HttpServerRequest
) =>
  handled.pipe(
    Effect.provideService(HttpServerRequest.HttpServerRequest, adapt(request)),
    Effect.provideService(RefusalShape, refusal)
  )

type Middleware = <E, R>(
  handled: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
) => Effect.Effect<HttpServerResponse.HttpServerResponse, E, R | HttpServerRequest.HttpServerRequest>

/** Gives every request an id, which is in the response and in each line of the log, refuses those that may not come in, and turns every failure into an answer in the shape of the protocol. `pages` come before the routes, for those who may come in. */
export const layer = <R>(edges: ReadonlyArray<Edge>, pages: Effect.Effect<Middleware, never, R>) =>
  HttpRouter.middleware(
    Effect.gen(function* () {
      const uuid = yield* UuidGenerator
      const admit = yield* Entrance.make
      const withPages = yield* pages
      return (handled) => {
        const admitted = Effect.catchCause(admit(withPages(handled)), rescue)
        return Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
          const given = request.headers["x-request-id"]
          const id = isSane(given) ? given : uuid()
          const edge = edges.find(({ path }) => path.test(request.url))
          return (edge === undefined ? admitted : within(admitted, edge, request)).pipe(
            Effect.map(HttpServerResponse.setHeader("x-request-id", id)),
            Effect.annotateLogs({ request_id: id }),
            Effect.provideService(RequestId, id)
          )
        })
      }
    }),
    { global: true }
  )
