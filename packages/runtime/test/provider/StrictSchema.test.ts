import { assert, describe, it } from "@effect/vitest"
import { isStrict } from "../../src/provider/StrictSchema.ts"
import type { JsonSchema } from "../../src/tool/Tool.ts"

const closed = { type: "object", additionalProperties: false }
const with_ = (a: JsonSchema): JsonSchema => ({ ...closed, properties: { a }, required: ["a"] })

describe("a schema to which providers hold answers exactly", () => {
  it.each<[JsonSchema]>([
    [closed],
    [with_({ type: "string", description: "a", enum: ["b", null] })],
    [with_({ anyOf: [{ type: "integer" }, { const: 7 }, with_({ type: "boolean" })] })],
    [with_({ type: "array", items: { $ref: "#/$defs/b" } })],
    [{ ...with_({ $ref: "#/definitions/b" }), definitions: { b: with_({ type: "number" }) } }]
  ])("is %j", (schema) => {
    assert.isTrue(isStrict(schema, { needsAll: true }))
  })

  it.each<[JsonSchema]>([
    [{ type: "object" }],
    [{ type: "array", items: { type: "string" } }],
    [{ ...closed, anyOf: [closed] }],
    [with_({})],
    [with_({ type: "string", minLength: 1 })],
    [with_({ type: "string", default: "a" })],
    [with_({ type: ["object", "null"] })],
    [with_({ properties: {} })],
    [with_({ enum: [{ a: 1 }] })],
    [with_({ $ref: "#" })],
    [with_({ $ref: "#/$defs/b", description: "a" })],
    [{ ...closed, $defs: { b: { type: "string", pattern: "a" } } }],
    [{ ...closed, properties: { a: true } }]
  ])("is not %j", (schema) => {
    assert.isFalse(isStrict(schema, { needsAll: true }))
    assert.isFalse(isStrict(schema, { needsAll: false }))
  })

  it("may have properties that may be missing, unless all are needed", () => {
    const schema = { ...closed, properties: { a: { type: "string" } } }
    assert.deepStrictEqual(
      [true, false].map((needsAll) => isStrict(schema, { needsAll })),
      [false, true]
    )
  })
})
