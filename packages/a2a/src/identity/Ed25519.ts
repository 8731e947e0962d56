import { Redacted } from "effect"
import { createHash, createPrivateKey, createPublicKey, sign, verify } from "node:crypto"

export const publicKeySize = 32
export const signatureSize = 64

/** The bytes before the seed of a private key in PKCS #8 (RFC 8410, section 7). */
const pkcs8 = Buffer.from("302e020100300506032b657004220420", "hex")

/** A pair of keys that can sign. The private one stays inside. */
export interface KeyPair {
  readonly publicKey: Uint8Array
  readonly sign: (message: string) => Uint8Array
}

/** The keys that belong to a seed of 32 bytes. */
export const fromSeed = (seed: Redacted.Redacted<Uint8Array>): KeyPair => {
  const key = createPrivateKey({ key: Buffer.concat([pkcs8, Redacted.value(seed)]), format: "der", type: "pkcs8" })
  const { x = "" } = createPublicKey(key).export({ format: "jwk" })
  return {
    publicKey: Buffer.from(x, "base64url"),
    sign: (message) => sign(null, Buffer.from(message), key)
  }
}

/** Whether the signature is that of the UTF-8 bytes of a message. The public key has 32 bytes. */
export const isSignedBy = (publicKey: Uint8Array, message: string, signature: Uint8Array): boolean => {
  const x = Buffer.from(publicKey).toString("base64url")
  const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" })
  return verify(null, Buffer.from(message), key, signature)
}

export const sha256 = (bytes: Uint8Array): Buffer => createHash("sha256").update(bytes).digest()
