import { Option, Result, Schema } from "effect"
import * as Base58 from "./Base58.ts"
import { publicKeySize } from "./Ed25519.ts"
import { fits, keyOfMultibase } from "./PeerDid.ts"

/** A key of a DID document: its id, and 32 bytes of Ed25519. */
export interface DidKey {
  readonly id: string
  readonly publicKey: Uint8Array
}

/** A document may name many keys, and every key that is tried costs time. */
const maxKeys = 8

const methods = Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.Json)))
const Document = Schema.Struct({
  id: Schema.String,
  verificationMethod: methods,
  authentication: methods,
  assertionMethod: methods
})

const word = Schema.optionalKey(Schema.NullOr(Schema.String))
const VerificationMethod = Schema.Struct({
  id: word,
  publicKeyBase58: word,
  publicKeyMultibase: word,
  publicKeyJwk: Schema.optionalKey(
    Schema.NullOr(Schema.Struct({ kty: Schema.Literal("OKP"), crv: Schema.Literal("Ed25519"), x: Schema.String }))
  )
})

const decodeDocument = Schema.decodeUnknownResult(Schema.fromJsonString(Document))
const decodeMethod = Schema.decodeUnknownOption(VerificationMethod)

const keyOfJwk = (x: string): Option.Option<Uint8Array> =>
  /^[\w-]{43}$/.test(x) ? Option.some(Buffer.from(x, "base64url")) : Option.none()

const keyOf = (method: Schema.Json): Option.Option<DidKey> =>
  Option.flatMap(decodeMethod(method), ({ id, publicKeyBase58, publicKeyJwk, publicKeyMultibase }) =>
    Option.firstSomeOf([
      Option.flatMap(Option.fromNullishOr(publicKeyBase58), (text) => Base58.decode(text, publicKeySize)),
      Option.flatMap(Option.fromNullishOr(publicKeyMultibase), keyOfMultibase),
      Option.flatMap(Option.fromNullishOr(publicKeyJwk), ({ x }) => keyOfJwk(x))
    ]).pipe(Option.map((publicKey) => ({ id: id ?? "", publicKey })))
  )

/**
 * The keys of a DID document that fit its DID: Ed25519, in base58, multibase or as a JWK. A failure says why there is none:
 * the document is that of another DID, or none of its keys fits.
 */
export const keysOf = (did: string, body: string): Result.Result<ReadonlyArray<DidKey>, string> => {
  const decoded = decodeDocument(body)
  if (Result.isFailure(decoded)) return Result.fail("its DID document does not decode")
  const { assertionMethod, authentication, id, verificationMethod } = decoded.success
  if (id !== did) return Result.fail("its DID document is that of another DID")
  const keys = new Map<string, DidKey>()
  for (const method of [verificationMethod, authentication, assertionMethod].flatMap((named) => named ?? [])) {
    const key = keyOf(method)
    if (Option.isSome(key) && fits(did, key.value.publicKey)) {
      keys.set(Buffer.from(key.value.publicKey).toString("hex"), key.value)
    }
    if (keys.size === maxKeys) break
  }
  return keys.size === 0 ? Result.fail("its DID document has no key of that DID") : Result.succeed([...keys.values()])
}
