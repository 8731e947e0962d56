import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import * as Base58 from "../../src/identity/Base58.ts"
import { keysOf } from "../../src/identity/DidDocument.ts"
import { agent, documentOf } from "./Agent.ts"

const ann = agent(1)
const bob = agent(2)
const web = "did:web:agent.test"

const found = (did: string, document: unknown) =>
  Result.map(keysOf(did, JSON.stringify(document)), (keys) => keys.length)

const multibase = (prefix: ReadonlyArray<number>) => `z${Base58.encode(Uint8Array.from([...prefix, ...ann.publicKey]))}`

const jwk = (fields: object = {}) => ({
  publicKeyJwk: { kty: "OKP", crv: "Ed25519", x: Buffer.from(ann.publicKey).toString("base64url"), ...fields }
})

describe("a key", () => {
  it.each([
    ["publicKeyBase58", ann.key],
    ["publicKeyMultibase", { publicKeyMultibase: multibase([0xed, 0x01]) }],
    ["publicKeyMultibase without what says Ed25519", { publicKeyMultibase: multibase([]) }],
    ["publicKeyJwk", jwk()],
    ["publicKeyBase58 beside a null", { ...ann.key, publicKeyJwk: null }]
  ])("is found as %s", (_, key) => {
    const expected = Result.succeed([{ id: `${ann.did}#key-1`, publicKey: Buffer.from(ann.publicKey) }])
    const keys = Result.map(keysOf(ann.did, JSON.stringify(documentOf(ann.did, key))), (list) =>
      list.map(({ id, publicKey }) => ({ id, publicKey: Buffer.from(publicKey) }))
    )
    assert.deepStrictEqual(keys, expected)
  })

  it.each(["verificationMethod", "authentication", "assertionMethod"])("is found in %s, beside references", (where) => {
    assert.deepStrictEqual(found(ann.did, { id: ann.did, [where]: ["#key-1", ann.key, 1] }), Result.succeed(1))
  })

  it.each([
    ["of another curve", jwk({ crv: "X25519" })],
    ["of a wrong length", { publicKeyBase58: Base58.encode(ann.publicKey.subarray(1)) }],
    ["of another kind", { publicKeyMultibase: multibase([0xec, 0x01]) }],
    ["in no base58", { publicKeyBase58: "0OIl" }],
    ["whose hash is not in the DID", bob.key]
  ])("%s is passed over", (_, key) => {
    assert.deepStrictEqual(found(ann.did, documentOf(ann.did, key, ann.key)), Result.succeed(1))
    assert.isTrue(Result.isFailure(found(ann.did, documentOf(ann.did, key))))
  })

  it("is the one that a did:key contains", () => {
    for (const did of [`did:key:${multibase([0xed, 0x01])}`, `did:key:${multibase([])}`]) {
      assert.deepStrictEqual(found(did, documentOf(did, bob.key, ann.key)), Result.succeed(1))
      assert.isTrue(Result.isFailure(found(did, documentOf(did, bob.key))))
    }
  })

  it("may be any of the document where the method does not say which, but only of the first 8", () => {
    const keys = Array.from({ length: 20 }, (_, index) => agent(index).key)
    assert.deepStrictEqual(found(web, documentOf(web, bob.key, ann.key)), Result.succeed(2))
    assert.deepStrictEqual(found(web, documentOf(web, ...keys, ...keys)), Result.succeed(8))
  })
})

it("a did:bindu may be without the dashes of its UUID", () => {
  const did = ann.did.replaceAll("-", "")
  assert.deepStrictEqual(found(did, documentOf(did, ann.key)), Result.succeed(1))
})

it.each([
  ["is that of another DID", documentOf(bob.did, ann.key)],
  ["is no document", { authentication: [ann.key] }],
  ["has no key", { id: ann.did }]
])("a document that %s gives no key", (_, document) => {
  assert.isTrue(Result.isFailure(found(ann.did, document)))
})
