import type { CallerName } from "@bowline/domain/caller/CallerName"
import { LoginStore } from "@bowline/runtime/unstable/store/LoginStore"
import { Clock, Duration, Effect, Option } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { createHmac, randomBytes } from "node:crypto"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { isLocal, isOwnPage } from "./Arrival.ts"
import { arrivalOf } from "./Entrance.ts"
import * as KnownCallers from "./KnownCallers.ts"
import { Refused } from "./Refusals.ts"

/** How long a person stays logged in. */
const duration = Duration.hours(12)

const tokenBytes = 32

/** Browsers keep a cookie of the first name only if it comes over TLS and for this host alone, so no other host can plant one. */
const secure = { name: "__Host-bowline", options: { secure: true } }
/** For the person at the machine, whose browser speaks plain HTTP to it. */
const local = { name: "bowline", options: { secure: false } }

const isLocalRequest = ({ headers }: HttpServerRequest.HttpServerRequest): boolean => isLocal(headers["host"] ?? "")

const cookieOf = (request: HttpServerRequest.HttpServerRequest) =>
  isLocalRequest(request) && request.headers["origin"]?.startsWith("https:") !== true ? local : secure

const common = { httpOnly: true, sameSite: "strict", path: "/" } as const

/** Of a browser that has both cookies only one may be good. */
const tokensOf = (request: HttpServerRequest.HttpServerRequest): ReadonlyArray<string> =>
  (isLocalRequest(request) ? [secure, local] : [secure]).flatMap(({ name }) => request.cookies[name] ?? [])

const isRead = ({ method }: HttpServerRequest.HttpServerRequest): boolean => method === "GET" || method === "HEAD"

const foreign = new Refused({
  code: "forbidden",
  detail:
    "With the console's cookie only the gateway's own pages may change something: Sec-Fetch-Site: same-origin, or the gateway's own Origin"
})

/**
 * The logins of the console: a cookie of 256 random bits stands for a key for 12 hours. The store has an HMAC of the cookie and of the
 * key's digest, so a login ends with its key: no configured key leads to what is stored.
 */
export const make = Effect.gen(function* () {
  const { consoleEnabled, entry } = yield* GatewayConfig
  const known = yield* KnownCallers.all
  const store = yield* LoginStore

  const digestOf = (token: string, caller: KnownCallers.KnownCaller): string =>
    createHmac("sha256", token).update(caller.digest).digest("base64url")

  /** The callers that the cookies of a request may stand for, by what the store would have of each. */
  const candidatesOf = (request: HttpServerRequest.HttpServerRequest): ReadonlyMap<string, CallerName> =>
    new Map(tokensOf(request).flatMap((token) => known.map((caller) => [digestOf(token, caller), caller.name])))

  const expectOwnPage = (request: HttpServerRequest.HttpServerRequest) =>
    isRead(request) || isOwnPage(arrivalOf(request), entry) ? Effect.void : Effect.fail(foreign)

  return {
    /** Logs a caller in. */
    begin: Effect.fnUntraced(function* (caller: KnownCallers.KnownCaller) {
      const request = yield* HttpServerRequest.HttpServerRequest
      const token = randomBytes(tokenBytes).toString("base64url")
      const now = yield* Clock.currentTimeMillis
      yield* store.keep(digestOf(token, caller), { now, until: now + Duration.toMillis(duration) })
      const { name, options } = cookieOf(request)
      return HttpServerResponse.setCookieUnsafe(HttpServerResponse.empty(), name, token, {
        ...common,
        ...options,
        maxAge: duration
      })
    }),

    /** Who has sent this request, if it has the cookie of a login. Only the gateway's own pages may change something by it. */
    callerOf: Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
      const candidates = consoleEnabled ? candidatesOf(request) : new Map<string, CallerName>()
      if (candidates.size === 0) return undefined
      yield* expectOwnPage(request)
      const found = yield* store.find(Array.from(candidates.keys()), yield* Clock.currentTimeMillis)
      return Option.isSome(found) ? candidates.get(found.value) : undefined
    }),

    /** Logs out whoever has sent this request. */
    end: Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const digests = Array.from(candidatesOf(request).keys())
      if (digests.length > 0) {
        yield* expectOwnPage(request)
        yield* store.drop(digests)
      }
      return [secure, ...(isLocalRequest(request) ? [local] : [])].reduce(
        (response, { name, options }) =>
          HttpServerResponse.expireCookieUnsafe(response, name, { ...common, ...options }),
        HttpServerResponse.empty()
      )
    })
  }
})
