import { Clock, DateTime, Duration, Effect, Layer, Option, Redacted } from "effect"
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, errors, jwtVerify, type LocalJWKSet } from "jose"
import { algorithms as allAlgorithms, type FileIssuer } from "../config/file/IssuerSchema.ts"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import * as IssuerKeys from "./IssuerKeys.ts"
import { Refused } from "./Refusals.ts"
import { TokenVerifier } from "./TokenVerifier.ts"
import { callerOf, type Claims } from "./TokenClaims.ts"

const usualLeeway = Duration.seconds(60)

/** A longer token is none: it would cost more to read than a caller is worth. */
const maxLength = 16_384

const invalid = (detail: string) => new Refused({ code: "unauthorized", detail })

/** Never says which part of a key was wrong. */
const unsigned = invalid("The signature of the token cannot be verified with a key of its issuer")
const malformed = invalid("The token is malformed")

/** Why a token is refused, in words of our own: those of the library may change. */
const faultOf = (cause: unknown): Refused => {
  if (cause instanceof errors.JWTExpired) return invalid("The token has expired")
  if (cause instanceof errors.JWTClaimValidationFailed) {
    switch (cause.claim) {
      case "aud":
        return invalid("The token is for another audience")
      case "nbf":
        return invalid("The token is not valid yet")
      default:
        return invalid(`The token has no ${cause.claim} that can be accepted`)
    }
  }
  if (cause instanceof errors.JOSEAlgNotAllowed)
    return invalid("The token is signed with an algorithm that is not allowed")
  const isOfKey =
    cause instanceof errors.JWSSignatureVerificationFailed ||
    cause instanceof errors.JWKSNoMatchingKey ||
    cause instanceof errors.JWKSMultipleMatchingKeys
  return isOfKey ? unsigned : malformed
}

const read = <A>(decode: () => A) => Effect.try({ try: decode, catch: () => malformed })

/** What verifies the tokens of one issuer. */
const makeIssuer = Effect.fnUntraced(function* (issuer: FileIssuer) {
  const { algorithms = allAlgorithms, audience, leeway = usualLeeway } = issuer
  const keys = yield* IssuerKeys.make(issuer)
  // RFC 9864 has a name of its own for the one curve of EdDSA that there is.
  const allowed = algorithms.flatMap((name): ReadonlyArray<string> => (name === "EdDSA" ? [name, "Ed25519"] : [name]))
  let last: { readonly of: IssuerKeys.KeySet; readonly set: LocalJWKSet } | undefined

  const find = Effect.fnUntraced(function* (kid: string | undefined) {
    const { seconds, set } = yield* keys.find(kid)
    if (Option.isNone(set)) {
      const detail = `The identity provider ${issuer.name} does not answer, and the gateway does not know the key of the token`
      return yield* new Refused({ code: "unavailable", detail, headers: { "retry-after": String(seconds) } })
    }
    // It keeps keys that were used, ready for use.
    if (last?.of !== set.value) {
      last = { of: set.value, set: createLocalJWKSet({ keys: set.value.keys.map((key) => ({ ...key })) }) }
    }
    return last.set
  })

  const verifyWith = (token: string, set: LocalJWKSet, now: number) =>
    Effect.tryPromise({
      try: () =>
        jwtVerify(token, set, {
          issuer: issuer.issuer,
          audience: typeof audience === "string" ? audience : [...audience],
          algorithms: allowed,
          requiredClaims: ["exp"],
          clockTolerance: Duration.toSeconds(leeway),
          currentDate: DateTime.toDateUtc(DateTime.makeUnsafe(now))
        }),
      catch: faultOf
    })

  return Effect.fnUntraced(function* (token: string) {
    const { alg, kid } = yield* read(() => decodeProtectedHeader(token))
    // Before anybody is asked for a key.
    if (alg === undefined || !allowed.includes(alg)) return yield* faultOf(new errors.JOSEAlgNotAllowed())
    const now = yield* Clock.currentTimeMillis
    const verified = verifyWith(token, yield* find(kid), now).pipe(
      Effect.catch((refused) =>
        Effect.gen(function* () {
          if (refused !== unsigned || kid !== undefined || !(yield* keys.askAgain)) return yield* refused
          return yield* verifyWith(token, yield* find(kid), now)
        })
      )
    )
    const { payload } = yield* verified
    const claims: Claims = payload
    const { exp = 0 } = payload
    return yield* Effect.fromResult(callerOf(issuer, claims)).pipe(
      Effect.map((caller) => ({ ...caller, until: exp * 1_000 })),
      Effect.mapError(({ _tag, detail }) =>
        _tag === "invalid"
          ? invalid(detail)
          : new Refused({
              code: "forbidden",
              detail,
              headers: { "www-authenticate": 'Bearer realm="bowline", error="insufficient_scope"' }
            })
      )
    )
  })
})

/** Verifies tokens of the identity providers of the configuration, by the keys that they publish. */
export const layer = Layer.effect(
  TokenVerifier,
  Effect.gen(function* () {
    const { issuers } = yield* GatewayConfig
    const byIssuer = new Map(
      yield* Effect.forEach(issuers, (issuer) =>
        Effect.map(makeIssuer(issuer), (verify) => [issuer.issuer, verify] as const)
      )
    )
    const verify = Effect.fnUntraced(function* (credential: Redacted.Redacted) {
      const token = Redacted.value(credential)
      if (token.length > maxLength) return yield* malformed
      const { iss = "" } = yield* read(() => decodeJwt(token))
      const verifyOf = byIssuer.get(iss)
      if (verifyOf === undefined) return yield* invalid("The token is of an issuer that the gateway does not know")
      return yield* verifyOf(token)
    })
    return Option.some({ verify })
  })
)
