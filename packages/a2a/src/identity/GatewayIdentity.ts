import { Context, Option, type Redacted } from "effect"
import * as Base58 from "./Base58.ts"
import * as Ed25519 from "./Ed25519.ts"
import { binduDid } from "./PeerDid.ts"
import * as PythonJson from "./PythonJson.ts"

/** Who the gateway is to its peers. Its private key does not leave it. */
export interface Identity {
  readonly did: string
  readonly publicKeyBase58: string
  /** Signs a request with this body, at a time in seconds since 1970, as Bindu's peers verify it. In base58. */
  readonly signRequest: (body: string, timestamp: number) => string
}

/** The identity that requests are signed with, and that `/.well-known/did.json` shows. None, unless the app sets one. */
export const GatewayIdentity = Context.Reference<Option.Option<Identity>>("@bowline/a2a/identity/GatewayIdentity", {
  defaultValue: Option.none
})

/** The identity of a DID, and of the pair of keys that belongs to a seed of 32 bytes. */
export const fromKeys = (did: string, { publicKey, sign }: Ed25519.KeyPair): Identity => ({
  did,
  publicKeyBase58: Base58.encode(publicKey),
  signRequest: (body, timestamp) => Base58.encode(sign(PythonJson.stringify({ body, did, timestamp })))
})

/** The identity that a seed of 32 bytes, an author such as an e-mail address, and a name give: always the same one. */
export const fromSeed = (options: {
  readonly seed: Redacted.Redacted<Uint8Array>
  readonly author: string
  readonly name: string
}): Identity => {
  const keys = Ed25519.fromSeed(options.seed)
  return fromKeys(binduDid(options.author, options.name, keys.publicKey), keys)
}

/** Its DID document, in the shape of Bindu's. */
export const documentOf = ({ did, publicKeyBase58 }: Identity) => ({
  "@context": ["https://www.w3.org/ns/did/v1", "https://getbindu.com/ns/v1"],
  id: did,
  authentication: [
    { id: `${did}#key-1`, type: "Ed25519VerificationKey2020" as const, controller: did, publicKeyBase58 }
  ]
})
