import type { Part } from "../../src/task/Task.ts"
import { Redacted } from "effect"
import * as Base58 from "../../src/identity/Base58.ts"
import * as Ed25519 from "../../src/identity/Ed25519.ts"
import { binduDid } from "../../src/identity/PeerDid.ts"

/** Somebody with a key: what it signs, its DID, and its key in a document. */
export const agent = (seed: number) => {
  const { publicKey, sign } = Ed25519.fromSeed(Redacted.make(new Uint8Array(32).fill(seed)))
  const publicKeyBase58 = Base58.encode(publicKey)
  return {
    publicKey,
    did: binduDid("ann@example.com", "agent", publicKey),
    key: { type: "Ed25519VerificationKey2020", publicKeyBase58 },
    signed: (text: string, metadata = {}): Part => ({
      _tag: "Text",
      text,
      metadata: { "did.message.signature": Base58.encode(sign(text)), ...metadata }
    })
  }
}

export const unsigned = (text: string): Part => ({ _tag: "Text", text })

/** A document in the shape of Bindu's. */
export const documentOf = (id: string, ...keys: ReadonlyArray<object>) => ({
  id,
  authentication: keys.map((key, index) => ({ id: `${id}#key-${index + 1}`, controller: id, ...key }))
})
