import { assert, it } from "@effect/vitest"
import { Redacted, Schema } from "effect"
import { inspect } from "node:util"
import * as Ed25519 from "../../src/identity/Ed25519.ts"
import * as BinduIdentity from "../../src/identity/BinduIdentity.ts"
import { python } from "./fixtures/Python.ts"

it.each(python.requests)("signs $title as Bindu does", ({ body, did, seed, signature, timestamp }) => {
  const identity = BinduIdentity.fromKeys(did, Ed25519.fromSeed(Redacted.make(seed)))
  assert.strictEqual(identity.signRequest(body, timestamp), signature)
})

it.each(python.identities)("has the DID $did", ({ author, did, name, publicKeyBase58, seed }) => {
  const identity = BinduIdentity.fromSeed({ seed: Redacted.make(seed), author, name })
  assert.deepInclude(identity, { did, publicKeyBase58 })
})

it("signs the fixture of the specification", () => {
  const keys = Ed25519.fromSeed(Redacted.make(new Uint8Array(32)))
  assert.strictEqual(
    BinduIdentity.fromKeys("did:bindu:test", keys).signRequest('{"test": "value"}', 1000),
    "3SfU4VPTHLbzZzCn17ZqU6y2tnzHQbdo2nnXQr6XZXk34XgyzwSKRrCYEWRmmGXrV39mdkyhTsy5oasfTpNuqyM2"
  )
})

it("does not show its seed", () => {
  const seed = new Uint8Array(32).fill(0xab)
  const identity = BinduIdentity.fromSeed({ seed: Redacted.make(seed), author: "a", name: "n" })
  const shown = inspect([identity, Ed25519.fromSeed(Redacted.make(seed))], { depth: 9, showHidden: true })
  assert.notMatch(shown, /ab, ?ab|abab|171, ?171|q6ur/i)
})

it.each(python.requests)("writes $title as Python does", ({ body, did, dumped, timestamp }) => {
  assert.strictEqual(BinduIdentity.pythonJson({ timestamp, did, body }), dumped)
})

it.each(python.dumps)("sorts the keys of an object as Python does: $dumped", ({ dumped, fields }) => {
  assert.strictEqual(BinduIdentity.pythonJson(fields), dumped)
})

// JSON.parse of Node.js 24 reads the key "\u0000" as "\\" where it has read an object with the latter.
const Key = Schema.String.check(Schema.isPattern(/^[^\\]*$/))

it.prop(
  "writes printable ASCII only, and nothing is lost",
  { fields: Schema.Record(Key, Schema.Union([Schema.String, Schema.Int])) },
  ({ fields }) => {
    const written = BinduIdentity.pythonJson(fields)
    assert.match(written, /^[\x20-\x7e]*$/)
    assert.deepStrictEqual(JSON.parse(written), JSON.parse(JSON.stringify(fields)))
  }
)
