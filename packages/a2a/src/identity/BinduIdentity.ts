import type { Identity } from "@bowline/runtime/auth/GatewayIdentity"
import type { Redacted } from "effect"
import * as Base58 from "./Base58.ts"
import { fromSeed as keysFromSeed, type KeyPair } from "./Ed25519.ts"
import { binduDid } from "./PeerDid.ts"

export type { KeyPair }

// JSON.stringify escapes the rest in the same way: control characters, quotes, backslashes, lone surrogates.
const pythonString = (value: string): string =>
  JSON.stringify(value).replace(/[\x7f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)

const byCodePoint = (left: string, right: string): number => Buffer.compare(Buffer.from(left), Buffer.from(right))

/**
 * Writes an object as Python's `json.dumps(fields, sort_keys=True)` does: with `", "` and `": "`, and every character that is
 * not printable ASCII as `\uXXXX`, in surrogate pairs where one is not enough. Bindu signs these bytes.
 */
export const pythonJson = (fields: Readonly<Record<string, string | number>>): string =>
  `{${Object.entries(fields)
    .toSorted(([left], [right]) => byCodePoint(left, right))
    .map(([key, value]) => `${pythonString(key)}: ${typeof value === "string" ? pythonString(value) : value}`)
    .join(", ")}}`

/**
 * The identity of a DID, and of the pair of keys that belongs to a seed of 32 bytes.
 *
 * @example
 * ```ts
 * import { fromKeys, pythonJson } from "@bowline/a2a/identity/BinduIdentity"
 *
 * // An identity whose private key is elsewhere: `sign` gets the bytes that Bindu signs, as `pythonJson` writes them.
 * export const remote = (did: string, publicKey: Uint8Array, sign: (text: string) => Uint8Array) =>
 *   fromKeys(did, { publicKey, sign })
 *
 * console.log(pythonJson({ did: "did:web:example.com", timestamp: 0 }))
 * ```
 */
export const fromKeys = (did: string, { publicKey, sign }: KeyPair): Identity => ({
  did,
  publicKeyBase58: Base58.encode(publicKey),
  sign,
  signRequest: (body, timestamp) => Base58.encode(sign(pythonJson({ body, did, timestamp })))
})

/**
 * The identity of a seed of 32 bytes, an author such as an e-mail address, and a name: always the same for the same ones.
 *
 * @example
 * ```ts
 * import { documentOf, fromSeed } from "@bowline/a2a/identity/BinduIdentity"
 * import { GatewayIdentity } from "@bowline/runtime/auth/GatewayIdentity"
 * import { Layer, Option, Redacted } from "effect"
 *
 * const identity = fromSeed({
 *   seed: Redacted.make(crypto.getRandomValues(new Uint8Array(32))),
 *   author: "ops@example.com",
 *   name: "gateway"
 * })
 *
 * console.log(documentOf(identity))
 * export const Identity = Layer.succeed(GatewayIdentity, Option.some(identity))
 * ```
 */
export const fromSeed = (options: {
  readonly seed: Redacted.Redacted<Uint8Array>
  readonly author: string
  readonly name: string
}): Identity => {
  const keys = keysFromSeed(options.seed)
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
