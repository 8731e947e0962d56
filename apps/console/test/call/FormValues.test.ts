import { assert, describe, it } from "@effect/vitest"
import { formOf, readForm, readJson, typedOf } from "../../src/call/FormValues.ts"

const schema = {
  type: "object",
  properties: {
    city: { type: "string", description: "Where" },
    days: { type: "integer", default: 3 },
    units: { enum: ["metric", "imperial"] },
    hourly: { type: "boolean" },
    place: { type: "object", properties: { lat: { type: "number" } } }
  },
  required: ["city"]
}
const fields = formOf(schema)

const read = (typed: Readonly<Record<string, string>>, rest = {}) =>
  readForm(fields, { ...typedOf(fields, rest), ...typed }, rest)

describe("the form of a schema", () => {
  it("has a field for each property, of the kind that it takes", () => {
    assert.deepStrictEqual(
      fields.map(({ choices, kind, name, required, words }) => [name, kind, required, words, choices]),
      [
        ["city", "text", true, "Where", []],
        ["days", "number", false, null, []],
        ["units", "choice", false, null, ["metric", "imperial"]],
        ["hourly", "choice", false, null, [true, false]],
        ["place", "json", false, null, []]
      ]
    )
    for (const none of [null, true, {}, { type: "object" }, { properties: 1 }]) assert.deepStrictEqual(formOf(none), [])
  })

  it("gives what was typed, and leaves out what is empty", () => {
    assert.deepStrictEqual(read({ city: "Oslo" }), { value: { city: "Oslo", days: 3 } })
    assert.deepStrictEqual(read({ city: " 1 ", days: "", units: `"metric"`, hourly: "false", place: `{"lat":1.5}` }), {
      value: { city: " 1 ", units: "metric", hourly: false, place: { lat: 1.5 } }
    })
  })

  it("begins with a value that is known, and keeps of it what it has no field for", () => {
    const given = { city: "Oslo", hourly: true, place: { lat: 1 }, other: [1] }
    assert.deepStrictEqual(read({}, given), { value: { ...given, days: 3 } })
    assert.deepStrictEqual(read({ hourly: "" }, given), {
      value: { city: "Oslo", days: 3, place: { lat: 1 }, other: [1] }
    })
  })

  it("says in words what cannot be read", () => {
    assert.deepStrictEqual(read({}), { problem: "city is needed." })
    assert.deepStrictEqual(read({ city: "x", days: "many" }), { problem: "days is not a number." })
    assert.deepStrictEqual(read({ city: "x", place: "here" }), {
      problem: "place is no JSON. A text stands between quotation marks."
    })
    assert.deepStrictEqual(readJson(`{"a":1}`), { value: { a: 1 } })
    assert.deepStrictEqual(readJson("[]"), { problem: "Expected a JSON object, such as {}." })
    assert.match(JSON.stringify(readJson("{")), /This is no JSON/)
  })
})
