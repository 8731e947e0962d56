import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { parseInput, problem } from "../../src/tool/ToolSchema.ts"

const schema = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: { city: { type: "string" }, days: { type: "array", prefixItems: [{ type: "integer" }], items: false } },
  required: ["city"],
  unevaluatedProperties: false
}

const messageOf = (text: string) => {
  const result = parseInput(schema, text)
  return Result.isFailure(result) ? result.failure.message : undefined
}

describe("ToolSchema", () => {
  it("holds arguments to all of JSON Schema 2020-12, and says what is wrong and where", () => {
    assert.isUndefined(messageOf('{"city": "Rome", "days": [1]}'))
    assert.match(messageOf('{"city": 7}') ?? "", /\/city: must be string/)
    assert.match(messageOf('{"city": "Rome", "days": [1, 2]}') ?? "", /\/days/)
    assert.match(messageOf('{"city": "Rome", "other": 1}') ?? "", /unevaluated/)
    assert.match(messageOf("") ?? "", /required property 'city'/)
    assert.match(messageOf("[1]") ?? "", /not a JSON object/)
    assert.match(messageOf('{"city": ') ?? "", /not valid JSON/)
  })

  it("keeps the schemas of two callers apart, though they have one id", () => {
    const $id = "https://schemas.test/tool"
    assert.isDefined(problem({ $id, type: "object", properties: { a: { type: "strin" } } }))
    assert.isUndefined(problem({ $id, type: "object", properties: { a: { type: "string" } } }))
    assert.isUndefined(problem({ $id, type: "object", properties: { a: { type: "number" } } }))
  })
})
