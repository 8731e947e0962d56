import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { counter } from "@bowline/runtime/unstable/telemetry/Instrument"
import { Effect, identity, Redacted } from "effect"
import { HttpMiddleware, HttpServerRequest, type HttpServerResponse } from "effect/http"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { formatPlace } from "../config/setting/ConfigProblem.ts"
import { refusalOf } from "./Arrival.ts"
import { isIssued } from "./KnownCallers.ts"
import * as ProtectedResource from "./ProtectedResource.ts"
import { Refused, respond } from "./Refusals.ts"

const refused = counter({
  name: "bowline.refused",
  description: "Requests that were refused by their `Host`, or by their `Origin`",
  labels: { reason: ["host", "origin"] }
})

/** What pages of other origins may read of an answer, besides its body. */
const exposedHeaders = [
  "Retry-After",
  "RateLimit-Limit",
  "RateLimit-Remaining",
  "RateLimit-Reset",
  "WWW-Authenticate",
  "X-Request-Id",
  "Mcp-Session-Id",
  "X-Bowline-Ignored",
  "X-Bowline-Plan-Id",
  "X-Bowline-Session"
]

/** Seconds for which a browser may remember the answer about an origin. */
const maxAge = 600

/** Pages of other origins ask with a key: no cookie is sent along, so the console's login is not theirs. The headers that a page asks for are allowed: its origin is listed. */
const cors = (origins: ReadonlyArray<string>) =>
  origins.length === 0
    ? identity
    : HttpMiddleware.cors({
        allowedOrigins: (origin) => origins.includes(origin),
        allowedMethods: ["GET", "HEAD", "POST", "DELETE"],
        exposedHeaders,
        maxAge
      })

/** Who a request comes from, and whom it means. */
export const arrivalOf = (request: HttpServerRequest.HttpServerRequest) => {
  // `request.url` lacks the host of a target that has one.
  const { rawHeaders, url = "" } = NodeHttpServerRequest.toIncomingMessage(request)
  const { origin, "sec-fetch-site": site } = request.headers
  // Of several `Host` the headers have the first one only.
  const hosts = rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === "host")
  return { target: url, hosts, origin, site }
}

const isCallback = /^\/+(console|accounts)\/+callback(\/+[\w-]*)?\/*$/i

/** Whether a URL has a credential in its query: it would be in the logs of each proxy on its way. An identity provider's own words are its matter. */
const hasCredential = (url: string): boolean => {
  const at = url.indexOf("?")
  if (at < 0 || isCallback.test(url.slice(0, at))) return false
  return Array.from(new URLSearchParams(url.slice(at + 1))).some(
    ([name, value]) =>
      name === "access_token" || /^eyJ[\w-]*\.[\w-]+\.[\w-]*$/.test(value) || isIssued(Redacted.make(value))
  )
}

/** Refuses whom the rules refuse, before any route and before the body is read, and lets listed origins read the answers. */
export const make = Effect.map(
  Effect.all([GatewayConfig, ProtectedResource.make]),
  ([{ entry, placeOf }, resource]) => {
    const refusals = {
      hosts: new Refused({ code: "invalid_request", detail: "Expected exactly one Host" }),
      host: new Refused({
        code: "forbidden",
        detail: `Expected a Host that is localhost, 127.0.0.1, [::1] or one of ${formatPlace(placeOf("publicHosts"))}`
      }),
      origin: new Refused({
        code: "forbidden",
        detail: "Expected an Origin that is the gateway's own, or one of cors.origins in the configuration file"
      })
    }
    const withCors = cors(entry.corsOrigins)
    return <E, R>(handled: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) => {
      const admitted = withCors(handled)
      return Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
        const refusal = refusalOf(arrivalOf(request), entry)
        if (refusal === undefined && hasCredential(request.url)) {
          return respond(resource.refuse(request, "Expected the credential in Authorization, not in the URL"))
        }
        return refusal === undefined
          ? admitted
          : Effect.andThen(
              refused.update(1, { reason: refusal === "origin" ? "origin" : "host" }),
              respond(refusals[refusal])
            )
      })
    }
  }
)
