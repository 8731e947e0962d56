import { type SealingKey, seal, unseal } from "@bowline/runtime/unstable/store/Sealing"
import { LoginStore } from "@bowline/runtime/unstable/store/LoginStore"
import { CallerName } from "@bowline/domain/caller/CallerName"
import { Clock, Duration, Effect, Option, Redacted, Schema } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { createHmac, randomBytes } from "node:crypto"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { isLocal, isOwnPage } from "./Arrival.ts"
import { arrivalOf } from "./Entrance.ts"
import type { OidcCaller } from "./OidcLogin.ts"
import { KnownCallers, type ConfiguredCaller, type KnownCaller, storedDigest } from "./KnownCallers.ts"
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

export const newSecret = (): string => randomBytes(tokenBytes).toString("base64url")

/** How long somebody may take at the identity provider. */
const away = Duration.minutes(10)

const wayCookieOf = (request: HttpServerRequest.HttpServerRequest, to: "login" | "account") => {
  const { name, options } = cookieOf(request)
  return { name: `${name}-${to}`, options }
}

/**
 * What the browser keeps while it is somewhere else, and its end: a callback that comes again has none. The way back comes from another site, so that the cookie has to be a
 * laxer one.
 */
const wayTo = (to: "login" | "account") =>
  Effect.map(HttpServerRequest.HttpServerRequest, (request) => {
    const { name, options } = wayCookieOf(request, to)
    return {
      kept: request.cookies[name],
      keep: (response: HttpServerResponse.HttpServerResponse, text: string) =>
        HttpServerResponse.setCookieUnsafe(response, name, text, { ...lax, ...options, maxAge: away }),
      drop: (response: HttpServerResponse.HttpServerResponse) =>
        HttpServerResponse.expireCookieUnsafe(response, name, { ...lax, ...options })
    }
  })

const lax = { httpOnly: true, sameSite: "lax", path: "/" } as const

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

const mac = (token: string, of: Buffer | string) => createHmac("sha256", token).update(of)

/** What the store would have of a cookie that stands for nobody of the configuration. */
const issuedDigest = (token: string): string => mac(token, "login").digest("base64url")

/** Whom a login stands for that is of no key of the configuration: the key that an admin has made, or whom an identity provider has vouched for. */
const Subject = Schema.fromJsonString(
  Schema.Union([
    Schema.Struct({ key: Schema.String }),
    Schema.Struct({
      oidc: Schema.Struct({
        issuer: Schema.String,
        name: CallerName,
        isAdmin: Schema.Boolean,
        groups: Schema.Array(Schema.String)
      })
    })
  ])
)
const decodeSubject = Schema.decodeUnknownOption(Subject)

const subjectOf = (by: { readonly key: Redacted.Redacted } | { readonly oidc: OidcCaller }): string =>
  JSON.stringify("key" in by ? { key: storedDigest(by.key) } : by)

/** Opens what the store has of such a login: only the cookie leads to it. */
const subjectKey = (token: string): SealingKey => Redacted.make(mac(token, "subject").digest())

/**
 * The logins of the console: a cookie of 256 random bits stands for a key for 12 hours. Of a key of the configuration the store has an HMAC of the cookie
 * and of the key's digest; of a key that an admin has made its digest, encrypted with the cookie. So a login ends with its key.
 */
export const make = Effect.gen(function* () {
  const { consoleEnabled, consoleOidc, entry } = yield* GatewayConfig
  const callers = yield* KnownCallers
  const store = yield* LoginStore

  const digestOf = (token: string, ofKey: Buffer): string => mac(token, ofKey).digest("base64url")

  /** The callers that the cookies of a request may stand for, by what the store would have of each: one of the configuration, or whom the store names. */
  const candidatesOf = (request: HttpServerRequest.HttpServerRequest) =>
    new Map<string, ConfiguredCaller | string>(
      tokensOf(request).flatMap((token) => [
        ...callers.configured.map((caller) => [digestOf(token, caller.digest), caller] as const),
        [issuedDigest(token), token] as const
      ])
    )

  const expectOwnPage = (request: HttpServerRequest.HttpServerRequest) =>
    isRead(request) || isOwnPage(arrivalOf(request), entry) ? Effect.void : Effect.fail(foreign)

  return {
    /** Logs a caller in. */
    begin: Effect.fnUntraced(function* (
      caller: KnownCaller,
      by: { readonly key: Redacted.Redacted } | { readonly oidc: OidcCaller }
    ) {
      const request = yield* HttpServerRequest.HttpServerRequest
      const token = newSecret()
      const now = yield* Clock.currentTimeMillis
      const kept = { now, until: now + Duration.toMillis(duration) }
      const digest = issuedDigest(token)
      yield* caller.digest === undefined
        ? store.keep(digest, { ...kept, subject: seal(subjectOf(by), digest, subjectKey(token)) })
        : store.keep(digestOf(token, caller.digest), kept)
      const { name, options } = cookieOf(request)
      return HttpServerResponse.setCookieUnsafe(HttpServerResponse.empty(), name, token, {
        ...common,
        ...options,
        maxAge: duration
      })
    }),

    /** Who has sent this request, if it has the cookie of a login. Only the gateway's own pages may change something by it. */
    callerOf: Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
      const candidates = candidatesOf(request)
      if (!consoleEnabled || candidates.size === 0) return Option.none<KnownCaller>()
      yield* expectOwnPage(request)
      const found = yield* store.find(Array.from(candidates.keys()), yield* Clock.currentTimeMillis)
      if (Option.isNone(found)) return Option.none<KnownCaller>()
      const { digest, subject } = found.value
      const caller = candidates.get(digest)
      if (typeof caller !== "string") return Option.fromNullishOr<KnownCaller | undefined>(caller)
      const opened = unseal(subject ?? "", digest, subjectKey(caller))
      const kept = Option.flatMap(opened, decodeSubject)
      if (Option.isNone(kept)) return Option.none<KnownCaller>()
      if ("key" in kept.value) return yield* callers.ofIssued(kept.value.key)
      const { groups, isAdmin, issuer, name } = kept.value.oidc
      return consoleOidc?.issuer.name === issuer
        ? Option.some<KnownCaller>({ name, isAdmin, asker: groups.length === 0 ? {} : { groups }, issuer })
        : Option.none<KnownCaller>()
    }),

    wayTo,

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
