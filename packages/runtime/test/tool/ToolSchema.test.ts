import { assert, describe, it } from "@effect/vitest"
import type { JsonSchema } from "../../src/tool/Tool.ts"
import { problem } from "../../src/tool/ToolSchema.ts"
import { endless, inlined, selfReferences, slowPattern } from "./HostileSchemas.ts"

const many = <A>(count: number, item: A): ReadonlyArray<A> => Array.from({ length: count }, () => item)
const tooDeep = (levels: number): JsonSchema => (levels === 0 ? {} : { not: tooDeep(levels - 1) })

const wrong: ReadonlyArray<readonly [schema: JsonSchema, message: RegExp]> = [
  [{ properties: { a: { type: "strin" } } }, /^Expected a JSON Schema 2020-12: schema\/properties\/a\/type must be/],
  [{ properties: [] }, /^Expected a JSON Schema 2020-12: schema\/properties must be object/],
  [
    { $schema: "http://json-schema.org/draft-04/schema#" },
    /^Expected a \$schema of JSON Schema draft-07, 2019-09 or 2020-12, or none, got "http:\/\/json-schema.org\/draft-04\/schema#"$/
  ],
  [{ $schema: 7 }, /^Expected a \$schema of JSON Schema draft-07, 2019-09 or 2020-12, or none, got 7$/],
  [
    { $schema: "https://json-schema.org/draft/2019-09/schema", allOf: many(513, { $recursiveRef: "#" }) },
    /^Expected at most 512 references, got 513$/
  ],
  [{ pattern: "(" }, /^Expected regular expressions, got "\("$/],
  [{ patternProperties: { "(": {} } }, /^Expected regular expressions, got "\("$/],
  [{ description: "x".repeat(65_536) }, /^Expected at most 65536 characters, got 65554$/],
  [tooDeep(65), /^Expected at most 64 levels of nesting$/],
  [{ anyOf: many(1_025, true) }, /^Expected at most 1024 alternatives, got 1025$/],
  [{ allOf: many(513, { $ref: "#" }) }, /^Expected at most 512 references, got 513$/],
  [{ allOf: many(129, { pattern: "a" }) }, /^Expected at most 128 patterns, got 129$/],
  [{ $ref: "#/$defs/a" }, /^Expected references to places in the schema, got "#\/\$defs\/a"$/],
  [{ $ref: "#/%" }, /^Expected references to places in the schema/],
  [{ $ref: "#a", $defs: { a: { $anchor: "b" } } }, /^Expected references to places in the schema/],
  [{ $ref: "other.json" }, /^Expected references to places in the schema/],
  [{ properties: { const: { $ref: "#/nowhere" } } }, /^Expected references to places in the schema/]
]

const right: ReadonlyArray<JsonSchema> = [
  {},
  { $schema: "https://json-schema.org/draft/2020-12/schema", $ref: "https://json-schema.org/draft/2020-12/schema" },
  { properties: { $ref: { type: "string" }, "a/b": { $ref: "#/properties/a~1b/$defs/%C3%A4", $defs: { ä: {} } } } },
  { $ref: "#a", $defs: { a: { $anchor: "a" } } },
  { $id: "https://schemas.test/a.json", $ref: "a.json#/$defs/b", $defs: { b: true } },
  { $id: "a", $defs: { b: { $id: "b", $ref: "a" } } },
  { default: { $ref: "#/nowhere" }, examples: [{ $ref: "#/nowhere", pattern: "(" }], const: { $ref: "elsewhere" } }
]

describe("ToolSchema", () => {
  it("holds a schema to the meta-schema of the draft that it names", () => {
    const drafts = [
      [
        "draft-07",
        "http://json-schema.org/draft-07/schema#",
        { items: [{ type: "string" }], dependencies: { a: ["b"] } }
      ],
      ["draft-07", "https://json-schema.org/draft-07/schema", { definitions: { a: true }, $ref: "#/definitions/a" }],
      ["2019-09", "https://json-schema.org/draft/2019-09/schema", { items: [true], $recursiveRef: "#" }],
      ["2020-12", "https://json-schema.org/draft/2020-12/schema#", { prefixItems: [true], $dynamicRef: "#" }]
    ] as const
    for (const [draft, $schema, schema] of drafts) {
      assert.isUndefined(problem({ $schema, ...schema }), $schema)
      assert.match(problem({ $schema, items: 7 }) ?? "", new RegExp(`^Expected a JSON Schema ${draft}: `))
    }
  })

  it("says what is wrong with a schema, before anything of it is compiled", () => {
    for (const [schema, message] of wrong) assert.match(problem(schema) ?? "", message)
  })

  it("takes what may be a schema, and leaves it to the first call to find out what it costs", () => {
    for (const schema of right) assert.isUndefined(problem(schema), JSON.stringify(schema))
    for (const schema of [inlined, endless, slowPattern.schema, ...selfReferences.filter((_, index) => index !== 1)]) {
      assert.isUndefined(problem(schema), JSON.stringify(schema).slice(0, 100))
    }
  })
})
