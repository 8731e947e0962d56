import { Effect, identity } from "effect"
import { HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import Negotiator from "negotiator"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import * as PageFiles from "./PageFiles.ts"

/** Programs get JSON at some of the same URLs. */
const ofPage = { ...PageFiles.ofPage, vary: "Accept, Accept-Encoding" }

const home = /^\/+$/
/** What is both a page and a part of the API. Like the router, this ignores case, and repeated and trailing slashes. */
const shared =
  /^\/+(?:(?:plans|sessions|schedules)(?:\/+[^/]+)?|overview|usage|waiting|approvals|accounts|peers|credentials)\/*$/i

const negotiated = ({ headers }: HttpServerRequest.HttpServerRequest, offers: ReadonlyArray<string>) =>
  new Negotiator({ headers }).mediaType(Array.from(offers))

/** Between two equal preferences, JSON wins: most programs accept everything. */
const prefersPage = (request: HttpServerRequest.HttpServerRequest): boolean =>
  negotiated(request, ["application/json", "text/html"]) === "text/html"

const isUnknown = (error: unknown): boolean =>
  HttpServerError.isHttpServerError(error) && error.reason._tag === "RouteNotFound"

/**
 * Gives browsers the console where a program gets JSON: one page for all its URLs, which asks the API for what it shows. A browser that
 * asks for what is not there gets the page, too, with a 404.
 */
export const make = Effect.gen(function* () {
  const { consoleEnabled } = yield* GatewayConfig
  if (!consoleEnabled) return identity
  const files = yield* PageFiles.read("console")
  const page = files.get("/index.html")
  if (page === undefined) {
    yield* Effect.logInfo(
      "The console is not built: `npm run docs` builds it in the sources, and published packages have it"
    )
    return identity
  }

  return <E, R>(handled: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
      if (request.method !== "GET" && request.method !== "HEAD") return handled
      const show = (status: number) => Effect.succeed(PageFiles.respond(request, page, { status, headers: ofPage }))
      const [path = ""] = request.url.split("?")
      const file = files.get(path)
      if (file !== undefined && file !== page) {
        return Effect.succeed(PageFiles.respond(request, file, { status: 200, headers: PageFiles.ofAsset }))
      }
      if (home.test(path) && negotiated(request, ["text/html"]) !== undefined) return show(200)
      if (!shared.test(path)) {
        return Effect.catchIf(
          handled,
          (error) => isUnknown(error) && prefersPage(request),
          () => show(404)
        )
      }
      return prefersPage(request) ? show(200) : Effect.map(handled, HttpServerResponse.setHeader("vary", "Accept"))
    })
})
