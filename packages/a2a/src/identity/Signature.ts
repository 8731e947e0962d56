import { Option, Schema } from "effect"
import type { Part } from "../task/Task.ts"
import * as Base58 from "./Base58.ts"
import type { DidKey } from "./DidDocument.ts"
import { isSignedBy, signatureSize } from "./Ed25519.ts"

/** A text, what signs it, and the key that it names, if it names one. */
export interface SignedText {
  readonly text: string
  readonly signature: Schema.Json
  readonly keyId: string | null
}

const field = "did.message.signature"
const Signed = Schema.Struct({ [field]: Schema.Json, keyId: Schema.optionalKey(Schema.Json) })
const decode = Schema.decodeUnknownOption(Signed)

/** The signature that a part carries. Only a text can carry one. */
export const signedText = (part: Part): Option.Option<SignedText> =>
  part._tag === "Text"
    ? decode(part.metadata).pipe(
        Option.filter((metadata) => metadata[field] !== null),
        Option.map(({ [field]: signature, keyId }) => ({
          text: part.text,
          signature,
          keyId: typeof keyId === "string" ? keyId : null
        }))
      )
    : Option.none()

/** A key goes by its whole id, or by what stands behind the `#` of it. */
const isNamed = (id: string, keyId: string | null): boolean =>
  keyId !== null && keyId !== "" && (id === keyId || id.split("#").at(-1) === keyId.replace(/^#/, ""))

/** Whether one of the keys has signed the text, that which it names being tried first. */
export const isGood = ({ keyId, signature, text }: SignedText, keys: ReadonlyArray<DidKey>): boolean => {
  const bytes = typeof signature === "string" ? Base58.decode(signature, signatureSize) : Option.none()
  if (Option.isNone(bytes)) return false
  const named = keys.filter(({ id }) => isNamed(id, keyId))
  return [...named, ...keys.filter((key) => !named.includes(key))].some(({ publicKey }) =>
    isSignedBy(publicKey, text, bytes.value)
  )
}
