import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { canonicalJson } from "../../src/store/CanonicalJson.ts"

/** The same value with the keys of every object in the opposite order. */
const turned = (value: Schema.Json): Schema.Json => {
  if (typeof value !== "object" || value === null) return value
  if (Array.isArray(value)) return value.map(turned)
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, inner]) => [key, turned(inner)])
  )
}

const parse = (text: string): unknown => JSON.parse(text)

describe("the canonical text of JSON", () => {
  it.prop("is the same whatever the order of keys and the whitespace", { value: Schema.Json }, ({ value }) => {
    const text = canonicalJson(parse(JSON.stringify(value)))
    assert.strictEqual(canonicalJson(parse(JSON.stringify(turned(value), null, "\t"))), text)
  })

  it.prop("says all that the value says", { value: Schema.Json }, ({ value }) => {
    const sent = parse(JSON.stringify(value))
    assert.deepStrictEqual(parse(canonicalJson(sent)), sent)
  })

  it("is that of RFC 8785", () => {
    const sent = `{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\"\\/",
      "literals": [null, true, false]
    }`
    assert.strictEqual(
      canonicalJson(parse(sent)),
      String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`
    )
    const keys = String.raw`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7,"__proto__":8}`
    assert.deepStrictEqual(
      Array.from(canonicalJson(parse(keys)).matchAll(/:(\d)/g), ([, value]) => Number(value)),
      [2, 4, 8, 6, 7, 1, 5, 3]
    )
  })
})
