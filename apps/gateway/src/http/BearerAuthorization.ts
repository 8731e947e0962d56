import { anonymous, CallerName } from "@bowline/domain/caller/CallerName"
import { Authorization, Caller } from "@bowline/protocol/api/Authorization"
import { Effect, Layer, Redacted } from "effect"
import { createHash, timingSafeEqual } from "node:crypto"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { formatPlace } from "../setting/ConfigProblem.ts"
import * as CallerRate from "./CallerRate.ts"
import { Refused, respond } from "./Refusals.ts"

const digestOf = (key: Redacted.Redacted): Buffer => createHash("sha256").update(Redacted.value(key)).digest()

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

/** Whose plans a request is about: those of its caller, unless an admin names another one. */
export const ownerOf = Effect.map(onlyAdmins, (admitted) =>
  Effect.fnUntraced(function* (named: string | undefined) {
    const caller = yield* Caller
    if (named === undefined || named === caller) return caller
    yield* admitted
    return named === "" ? caller : CallerName.make(named)
  })
)

/**
 * Finds the caller by the digest of its key, and bounds its requests. Every key is compared, in constant time. Without keys everybody
 * is the same caller, as is everybody who reads public metrics.
 */
export const layer = Layer.effect(
  Authorization,
  Effect.gen(function* () {
    const { callerKeys, hasPublicMetrics } = yield* GatewayConfig
    const withinRate = yield* CallerRate.make
    const known = callerKeys.map(({ name, key }) => ({ name, digest: digestOf(key) }))

    const find = (credential: Redacted.Redacted) => {
      if (known.length === 0) return anonymous
      const digest = digestOf(credential)
      return known.filter((key) => timingSafeEqual(key.digest, digest))[0]?.name
    }

    return {
      bearer: (handled, { credential, endpoint }) => {
        if (hasPublicMetrics && endpoint.path === "/metrics") return Effect.provideService(handled, Caller, anonymous)
        const caller = find(credential)
        if (caller !== undefined) return withinRate(caller, Effect.provideService(handled, Caller, caller))
        const isMissing = Redacted.value(credential) === ""
        return respond(
          new Refused({
            code: "unauthorized",
            detail: isMissing ? "Expected Authorization: Bearer <key>" : "The gateway does not know this key",
            headers: { "www-authenticate": `Bearer realm="bowline"${isMissing ? "" : ', error="invalid_token"'}` }
          })
        )
      }
    }
  })
)
