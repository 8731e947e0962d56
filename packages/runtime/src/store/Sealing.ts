import { Option, Redacted } from "effect"
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto"

const algorithm = "aes-256-gcm"
const nonceBytes = 12
const tagBytes = 16

/** A key of 32 bytes. */
export type SealingKey = Redacted.Redacted<Uint8Array>

/** A new key, for what nobody has to read after this process. */
export const newKey = (): SealingKey => Redacted.make(randomBytes(32))

/** The base64 of nonce, AES-256-GCM ciphertext and tag. It can be opened with the key and what it `belongsTo` only. */
export const seal = (text: string, belongsTo: string, key: SealingKey): string => {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv(algorithm, Redacted.value(key), nonce, { authTagLength: tagBytes })
  cipher.setAAD(Buffer.from(belongsTo))
  return Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]).toString("base64")
}

/** The same in the alphabet of URLs and cookies. */
export const sealForUrl = (text: string, belongsTo: string, key: SealingKey): string =>
  Buffer.from(seal(text, belongsTo, key), "base64").toString("base64url")

/** The text that was sealed, in either alphabet. None if it was sealed with another key, for something else, or was changed. */
export const unseal = Option.liftThrowable((sealed: string, belongsTo: string, key: SealingKey): string => {
  const bytes = Buffer.from(sealed, "base64")
  const decipher = createDecipheriv(algorithm, Redacted.value(key), bytes.subarray(0, nonceBytes), {
    authTagLength: tagBytes
  })
  decipher.setAAD(Buffer.from(belongsTo))
  decipher.setAuthTag(bytes.subarray(-tagBytes))
  return decipher.update(bytes.subarray(nonceBytes, -tagBytes), undefined, "utf8") + decipher.final("utf8")
})
