import { Context, type Effect, Option } from "effect"
import type { Refused } from "./Refusals.ts"
import type { TokenCaller } from "./TokenClaims.ts"

/** Whom an identity provider has vouched for at a login, as the store keeps it. */
export interface OidcCaller extends TokenCaller {
  /** The name of the identity provider. */
  readonly issuer: string
}

/**
 * How people log in to the console with an identity provider. `secret` is what the browser keeps meanwhile: `state`, `nonce` and the verifier of PKCE follow from
 * it, so that whoever sees the URLs cannot make them.
 */
export const OidcLogin = Context.Reference<
  Option.Option<{
    /** Where to send the browser. */
    readonly begin: (base: string, secret: string) => Effect.Effect<URL, Refused>
    /** Who has come back, by the URL to which the identity provider has sent the browser. */
    readonly finish: (url: URL, secret: string) => Effect.Effect<OidcCaller, Refused>
    /** Where to send the browser to end the login at the identity provider, if that has such a place. */
    readonly endUrl: (base: string) => Effect.Effect<Option.Option<URL>>
  }>
>("@bowline/gateway/http/OidcLogin", { defaultValue: () => Option.none() })
