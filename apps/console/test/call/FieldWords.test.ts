import type { Json } from "@bowline/client"
import { assert, describe, it } from "@effect/vitest"
import { fieldsOf } from "../../src/call/FieldWords.ts"
import { schemaOf, toolsOf } from "../../src/call/ToolSchemas.ts"

const schema = {
  type: "object",
  properties: {
    payee: {
      type: "object",
      properties: { holder: { type: "string", title: "As on the invoice" }, ref: { $ref: "#/$defs/ref" } }
    },
    sum: { type: "number", description: "Paid out at once; cannot be undone", maximum: 1_000 },
    retries: { type: "integer", default: 3, maximum: 10 },
    colour: { enum: ["red", "green"] },
    old: { type: "string", deprecated: true }
  },
  $defs: { ref: { type: "string", description: "Our number", maxLength: 8 } }
}

describe("fieldsOf", () => {
  it("gives each argument the words and limits of its schema, also within objects and behind a reference", () => {
    const fields = fieldsOf({ payee: { holder: "Ann", ref: "R1" }, colour: "red" }, schema)
    assert.deepStrictEqual(
      fields?.map(({ limits, name, value, words }) => [name, value, words, limits]),
      [
        ["payee.holder", "Ann", "As on the invoice", null],
        ["payee.ref", "R1", "Our number", "at most 8 characters"],
        ["colour", "red", null, "one of red, green"]
      ]
    )
  })

  it("marks a field with the very word of the schema that says why", () => {
    const risk = (input: Json) => fieldsOf(input, schema)?.map(({ risk }) => risk)
    assert.deepStrictEqual(risk({ sum: 5, colour: "red", retries: 3 }), ["“cannot be undone”", null, null])
    assert.deepStrictEqual(risk({ payee: { ref: "R1" } }), ["“payee”"])
    assert.deepStrictEqual(risk({ retries: 9 }), ["near its limit"])
    assert.deepStrictEqual(risk({ retries: 4 }), ["not the usual value"])
    assert.deepStrictEqual(risk({ old: "x" }), ["deprecated"])
  })

  it("has only names to go by where the schema is not known, and no rows where the arguments are no object", () => {
    const fields = fieldsOf({ amountEur: 1, city: "Oslo" }, null)
    assert.deepStrictEqual(
      fields?.map(({ risk, words }) => [risk, words]),
      [
        ["“amount”", null],
        [null, null]
      ]
    )
    assert.isNull(fieldsOf("not JSON", schema))
    assert.deepStrictEqual(fieldsOf({}, schema), [])
  })
})

describe("toolsOf", () => {
  const plan = {
    preset: "desk",
    request: {
      agents: [
        {
          name: "bank",
          endpoint: "http://bank/",
          skills: [{ id: "pay.out", description: "Pays.", input_schema: schema }]
        },
        { name: "weather", endpoint: "http://weather/" }
      ],
      mcp_servers: [{ name: "docs", url: "http://docs/" }]
    }
  }

  it("names the tools that a request brings, and says where the others come from", () => {
    const { sources, tools } = toolsOf(plan)
    assert.deepStrictEqual(
      tools.map(({ description, name }) => [name, description]),
      [["bank_pay_out", "Pays."]]
    )
    assert.deepStrictEqual(
      sources.map(({ kind, name }) => `${kind} ${name}`),
      ["agent weather", "mcp server docs", "preset desk"]
    )
    assert.deepStrictEqual(toolsOf({ preset: null, request: null }), { tools: [], sources: [] })
  })

  it("finds the schema of a tool by the name that the gateway gives it", () => {
    assert.deepStrictEqual(schemaOf(plan, "bank_pay_out"), schema)
    assert.isNull(schemaOf(plan, "docs_search"))
  })
})
