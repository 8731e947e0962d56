import { Context, Option } from "effect"

/** The identity of the gateway. Its private key stays inside. */
export interface Identity {
  readonly did: string
  readonly publicKeyBase58: string
  /** Signs the UTF-8 bytes of a text with Ed25519. */
  readonly sign: (text: string) => Uint8Array
  /** Signs a request with this body, at a time in seconds since 1970, as Bindu's peers verify it. In base58. */
  readonly signRequest: (body: string, timestamp: number) => string
}

/**
 * Signs requests, and is shown at `/.well-known/did.json`. None, unless the app sets one.
 *
 * @example
 * ```ts
 * import { GatewayIdentity } from "@bowline/runtime/auth/GatewayIdentity"
 * import { Effect, Option } from "effect"
 *
 * export const did = Effect.map(GatewayIdentity, Option.map(({ did }) => did))
 * ```
 */
export const GatewayIdentity = Context.Reference<Option.Option<Identity>>("@bowline/runtime/auth/GatewayIdentity", {
  defaultValue: Option.none
})
