import { Option, Schema } from "effect"
import type { Part } from "../task/Task.ts"
import * as Base58 from "./Base58.ts"
import type { DidKey } from "./DidDocument.ts"
import { isSignedBy, signatureSize } from "./Ed25519.ts"

/** A text, its signature, and the key that it names, if any. */
export interface SignedText {
  readonly text: string
  readonly signature: Schema.Json
  readonly keyId: string | null
}

const field = "did.message.signature"
const Signed = Schema.Struct({ [field]: Schema.Json, keyId: Schema.optionalKey(Schema.Json) })
const decode = Schema.decodeUnknownOption(Signed)

/** The signature of a part. Only a text can have one. */
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

/** A key is named by its whole id, or by the part of it behind the `#`. */
const isNamed = (id: string, keyId: string | null): boolean =>
  keyId !== null && keyId !== "" && (id === keyId || id.split("#").at(-1) === keyId.replace(/^#/, ""))

/** Whether one of the keys signed the text. The named key is tried first. */
export const isGood = ({ keyId, signature, text }: SignedText, keys: ReadonlyArray<DidKey>): boolean => {
  const bytes = typeof signature === "string" ? Base58.decode(signature, signatureSize) : Option.none()
  if (Option.isNone(bytes)) return false
  const named = keys.filter(({ id }) => isNamed(id, keyId))
  return [...named, ...keys.filter((key) => !named.includes(key))].some(({ publicKey }) =>
    isSignedBy(publicKey, text, bytes.value)
  )
}
