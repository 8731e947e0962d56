import { Cache, Duration, Effect, Exit, Layer, Option } from "effect"
import * as OpenId from "openid-client"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { attempt, derive, discover, makeFetch } from "./OpenIdClient.ts"
import { OidcLogin } from "./OidcLogin.ts"
import { Refused } from "./Refusals.ts"
import { callerOf } from "./TokenClaims.ts"

export const callbackPath = "/console/callback"

/** How long what the identity provider says of itself is not asked again. */
const freshFor = Duration.minutes(10)

const refused = (detail: string) => new Refused({ code: "unauthorized", detail })

/** Logs people in with the identity provider of `console.oidc`: authorization code, PKCE, `state`, `nonce`. */
export const layer = Layer.effect(
  OidcLogin,
  Effect.gen(function* () {
    const { consoleOidc } = yield* GatewayConfig
    if (consoleOidc === undefined) return Option.none()
    const { clientId, clientSecret, issuer } = consoleOidc
    const fetchOwn = yield* makeFetch
    const away = new Refused({
      code: "unavailable",
      detail: `The identity provider ${issuer.name} does not answer. Try again, or log in with a key`
    })

    const discovering = attempt(async () => {
      const found = await discover({ issuer: issuer.issuer, clientId, clientSecret }, fetchOwn)
      // Whoever can change what the token endpoint says cannot sign.
      OpenId.enableNonRepudiationChecks(found)
      return found
    }).pipe(
      Effect.tapError((cause) =>
        Effect.annotateLogs(Effect.logWarning("identity_provider_failed", cause), { issuer: issuer.name })
      ),
      Effect.mapError(() => away)
    )
    const cache = yield* Cache.makeWith(() => discovering, {
      capacity: 1,
      timeToLive: (exit) => (Exit.isSuccess(exit) ? freshFor : Duration.zero)
    })
    const provider = Cache.get(cache, "")

    return Option.some({
      begin: Effect.fnUntraced(function* (base: string, secret: string) {
        const found = yield* provider
        const challenge = yield* Effect.promise(() => OpenId.calculatePKCECodeChallenge(derive(secret, "verifier")))
        return OpenId.buildAuthorizationUrl(found, {
          redirect_uri: `${base}${callbackPath}`,
          scope: "openid profile",
          code_challenge: challenge,
          code_challenge_method: "S256",
          state: derive(secret, "state"),
          nonce: derive(secret, "nonce")
        })
      }),
      finish: Effect.fnUntraced(function* (url: URL, secret: string) {
        const found = yield* provider
        const claims = yield* attempt(async () => {
          const tokens = await OpenId.authorizationCodeGrant(found, url, {
            pkceCodeVerifier: derive(secret, "verifier"),
            expectedState: derive(secret, "state"),
            expectedNonce: derive(secret, "nonce"),
            idTokenExpected: true
          })
          return tokens.claims() ?? {}
        }).pipe(
          Effect.tapError((cause) =>
            Effect.annotateLogs(Effect.logInfo("login_refused", cause), { issuer: issuer.name })
          ),
          Effect.mapError(() =>
            refused(
              `The login with ${issuer.name} is not the one that this browser has begun, or it was refused there. Log in again`
            )
          )
        )
        return yield* Effect.fromResult(callerOf(issuer, claims)).pipe(
          Effect.mapBoth({
            onSuccess: (caller) => ({ ...caller, issuer: issuer.name }),
            onFailure: ({ _tag, detail }) =>
              new Refused({ code: _tag === "invalid" ? "unauthorized" : "forbidden", detail })
          })
        )
      }),
      endUrl: (base: string) =>
        Effect.option(
          Effect.map(provider, (found) =>
            found.serverMetadata().end_session_endpoint === undefined
              ? Option.none<URL>()
              : Option.some(OpenId.buildEndSessionUrl(found, { post_logout_redirect_uri: `${base}/` }))
          )
        ).pipe(Effect.map(Option.flatten))
    })
  })
)
