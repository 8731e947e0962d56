import { CallerName } from "@bowline/domain/caller/CallerName"
import { Authorization, Caller } from "@bowline/protocol/unstable/api/Authorization"
import { ArrivedHost, ArrivedToken, AskerFacts } from "@bowline/runtime/unstable/config/AskerFacts"
import { FileLinks } from "@bowline/runtime/unstable/file/FileLinks"
import { Effect, Layer, Option, Redacted } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { formatPlace } from "../config/setting/ConfigProblem.ts"
import { KnownCallers, everybody, IsAdmin, isIssued, type KnownCaller } from "./KnownCallers.ts"
import * as CallerRate from "./CallerRate.ts"
import * as Logins from "./Logins.ts"
import * as ProtectedResource from "./ProtectedResource.ts"
import { answer, Refused, respond } from "./Refusals.ts"

/** No cache keeps an answer to a key in `Authorization`. For one to a cookie the answer has to say so; a stream has its own words. */
const unkept = (response: HttpServerResponse.HttpServerResponse) =>
  "cache-control" in response.headers ? response : HttpServerResponse.setHeader(response, "cache-control", "no-store")

/** The file that a URL with a token is about. */
const linkIn = (url: string) => {
  const [, file, query] = /^[^?]*\/files\/([^/?]+)\/content\?(.*)$/.exec(url) ?? []
  const token = new URLSearchParams(query).get("token")
  return file === undefined || token === null ? undefined : { file, token }
}

const badToken = new Refused({
  code: "forbidden",
  detail: "The token is not one of this file, or is older than an hour: call the tool again for a new URL"
})

/** Refuses every caller that is no admin. */
export const onlyAdmins = Effect.map(GatewayConfig, ({ placeOf }) =>
  Effect.gen(function* () {
    if (yield* IsAdmin) return
    const detail = `${yield* Caller} is not one of ${formatPlace(placeOf("adminCallers"))}`
    return yield* new Refused({ code: "forbidden", detail })
  })
)

/** Whose plans a request is about: those of its caller, unless an admin names another one. */
export const ownerOf = Effect.map(onlyAdmins, (admitted) =>
  Effect.fnUntraced(function* (named: string | undefined) {
    const caller = yield* Caller
    if (named === undefined || named === caller) return caller
    yield* admitted
    return named === "" ? caller : CallerName.make(named)
  })
)

/** Stands for everybody in a list of plans, or of what waits. No caller has this name. */
const allCallers = "*"

/** The same, or undefined where an admin names everybody. */
export const ownersOf = Effect.map(
  Effect.all([onlyAdmins, ownerOf]),
  ([admitted, findOwner]) =>
    (named: string | undefined) =>
      named === allCallers ? Effect.as(admitted, undefined) : findOwner(named)
)

/**
 * Finds the caller by its key, or by the console's cookie, and bounds its requests. Without keys everybody is the same caller, unless a key comes
 * that an admin has made; so is everybody who reads public metrics.
 */
export const layer = Layer.effect(
  Authorization,
  Effect.gen(function* () {
    const { hasPublicMetrics } = yield* GatewayConfig
    const withinRate = yield* CallerRate.make
    const callers = yield* KnownCallers
    const stranger = yield* everybody
    const links = yield* FileLinks
    const logins = yield* Logins.make
    const resource = yield* ProtectedResource.make

    const orEverybody = (found: Option.Option<KnownCaller>) =>
      callers.isOpen ? Option.orElse(found, () => Option.some(stranger)) : found

    /** The caller of a credential, and whether an answer to it may be kept: no cache keeps one to `Authorization`. */
    const find = Effect.fnUntraced(function* (key: Redacted.Redacted) {
      if (Redacted.value(key) === "") {
        if (callers.isOpen) return { found: Option.some(stranger), isKept: true }
        const request = yield* HttpServerRequest.HttpServerRequest
        return { found: yield* logins.callerOf(request), isKept: false }
      }
      const found = yield* callers.find(key)
      // On an open gateway a key that was revoked must not make an admin of its caller.
      return { found: isIssued(key) ? found : orEverybody(found), isKept: true }
    })

    return {
      bearer: (handled, { credential, endpoint }) => {
        const handledAs = ({ asker, isAdmin, name, token }: KnownCaller) =>
          Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) =>
            handled.pipe(
              Effect.provideService(Caller, name),
              Effect.provideService(IsAdmin, isAdmin),
              Effect.provideService(AskerFacts, asker),
              Effect.provideService(ArrivedToken, token),
              Effect.provideService(ArrivedHost, headers["host"])
            )
          )
        if (hasPublicMetrics && endpoint.path === "/metrics") return handledAs(stranger)
        const handledFor = (caller: KnownCaller) => withinRate(caller.name, handledAs(caller))
        const refuse = (detail: string, isMissing = false) =>
          Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
            respond(resource.refuse(request, detail, isMissing))
          )
        const authorized = Effect.matchEffect(find(credential), {
          onFailure: (refusal) =>
            refusal._tag === "Refused" && refusal.code === "unauthorized"
              ? refuse(refusal.detail)
              : answer(Effect.fail(refusal)),
          onSuccess: ({ found, isKept }) => {
            if (Option.isSome(found)) {
              return isKept ? handledFor(found.value) : Effect.map(handledFor(found.value), unkept)
            }
            return Redacted.value(credential) === ""
              ? refuse("Expected Authorization: Bearer <key>", true)
              : refuse("The gateway does not know this key")
          }
        })
        if (endpoint.path !== "/files/:id/content") return authorized
        return Effect.gen(function* () {
          const link = linkIn((yield* HttpServerRequest.HttpServerRequest).url)
          if (link === undefined) return yield* authorized
          const owner = yield* links.ownerOf(link.file, link.token)
          return Option.isNone(owner)
            ? yield* respond(badToken)
            : yield* handledFor({ name: owner.value, isAdmin: false, asker: {} })
        })
      }
    }
  })
)
