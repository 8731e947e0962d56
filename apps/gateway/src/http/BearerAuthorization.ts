import { anonymous, CallerName } from "@bowline/domain/caller/CallerName"
import { Authorization, Caller } from "@bowline/protocol/unstable/api/Authorization"
import { Effect, Layer, Redacted } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { formatPlace } from "../config/setting/ConfigProblem.ts"
import * as CallerRate from "./CallerRate.ts"
import * as KnownCallers from "./KnownCallers.ts"
import * as Logins from "./Logins.ts"
import { answer, Refused, respond } from "./Refusals.ts"

/** No cache keeps an answer to a key in `Authorization`. For one to a cookie the answer has to say so; a stream has its own words. */
const unkept = (response: HttpServerResponse.HttpServerResponse) =>
  "cache-control" in response.headers ? response : HttpServerResponse.setHeader(response, "cache-control", "no-store")

/** Refuses every caller that the configuration does not name as an admin. */
export const onlyAdmins = Effect.map(GatewayConfig, ({ isAdmin, placeOf }) =>
  Effect.flatMap(Caller, (caller) =>
    isAdmin(caller)
      ? Effect.void
      : Effect.fail(
          new Refused({ code: "forbidden", detail: `${caller} is not one of ${formatPlace(placeOf("adminCallers"))}` })
        )
  )
)

const unknown = (isMissing: boolean) =>
  new Refused({
    code: "unauthorized",
    detail: isMissing ? "Expected Authorization: Bearer <key>" : "The gateway does not know this key",
    headers: { "www-authenticate": `Bearer realm="bowline"${isMissing ? "" : ', error="invalid_token"'}` }
  })

/** Whose plans a request is about: those of its caller, unless an admin names another one. */
export const ownerOf = Effect.map(onlyAdmins, (admitted) =>
  Effect.fnUntraced(function* (named: string | undefined) {
    const caller = yield* Caller
    if (named === undefined || named === caller) return caller
    yield* admitted
    return named === "" ? caller : CallerName.make(named)
  })
)

/** Stands for everybody in a list of plans. No caller has this name. */
const everybody = "*"

/** The same, or undefined where an admin names everybody. */
export const ownersOf = Effect.map(
  Effect.all([onlyAdmins, ownerOf]),
  ([admitted, findOwner]) =>
    (named: string | undefined) =>
      named === everybody ? Effect.as(admitted, undefined) : findOwner(named)
)

/**
 * Finds the caller by the digest of its key, or by the console's cookie, and bounds its requests. Without keys everybody
 * is the same caller, as is everybody who reads public metrics.
 */
export const layer = Layer.effect(
  Authorization,
  Effect.gen(function* () {
    const { hasPublicMetrics } = yield* GatewayConfig
    const withinRate = yield* CallerRate.make
    const known = yield* KnownCallers.all
    const logins = yield* Logins.make

    return {
      bearer: (handled, { credential, endpoint }) => {
        if (hasPublicMetrics && endpoint.path === "/metrics") return Effect.provideService(handled, Caller, anonymous)
        const handledFor = (caller: CallerName) => withinRate(caller, Effect.provideService(handled, Caller, caller))
        if (known.length === 0) return handledFor(anonymous)
        if (Redacted.value(credential) !== "") {
          const caller = KnownCallers.find(known, credential)
          return caller === undefined ? respond(unknown(false)) : handledFor(caller.name)
        }
        return HttpServerRequest.HttpServerRequest.pipe(
          Effect.flatMap(logins.callerOf),
          Effect.matchEffect({
            onFailure: (refusal) => answer(Effect.fail(refusal)),
            onSuccess: (caller) =>
              caller === undefined ? respond(unknown(true)) : Effect.map(handledFor(caller), unkept)
          })
        )
      }
    }
  })
)
