import type { JsonSchema } from "@bowline/runtime/provider/Provider"
import { assert, it } from "@effect/vitest"
import { Ajv2020 } from "ajv/dist/2020.js"
import { makeInput } from "../../src/demo/DemoInput.ts"

const text = "Book a table for 4 in Rome on 2026-05-17 for ann@example.org, by the window"

const cases: ReadonlyArray<readonly [title: string, schema: JsonSchema, input: unknown]> = [
  [
    "plain words as they are",
    { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
    { query: text }
  ],
  [
    "formats, numbers and the member of an enumeration that the question mentions",
    {
      type: "object",
      properties: {
        date: { type: "string", format: "date" },
        email: { type: "string", format: "email" },
        people: { type: "integer", minimum: 1, maximum: 12 },
        place: { enum: ["door", "window"] }
      },
      required: ["date", "email", "people", "place"],
      additionalProperties: false
    },
    { date: "2026-05-17", email: "ann@example.org", people: 4, place: "window" }
  ],
  [
    "what the schema presets where the question says nothing, within its bounds",
    {
      type: "object",
      properties: {
        a: { const: "x" },
        b: { type: "number", minimum: 5 },
        c: { type: "boolean", default: true },
        d: { type: "array", items: { type: "integer", maximum: 3 }, minItems: 2 },
        e: { anyOf: [{ type: "null" }, { type: "object", properties: {} }] },
        f: { type: ["null", "string"], minLength: 5, maxLength: 6 }
      },
      required: ["a", "b", "c", "d", "e", "f"]
    },
    undefined
  ],
  ["no more than the schema requires", { type: "object", properties: { limit: { type: "integer" } } }, {}],
  [
    "a schema that contains itself",
    {
      type: "object",
      properties: { child: { $ref: "#" } },
      required: ["child"]
    },
    undefined
  ]
]

const ajv = new Ajv2020({ strict: false, validateFormats: false })

for (const [title, schema, input] of cases) {
  it(`makes arguments out of ${title}`, () => {
    const made = makeInput(schema, text)
    if (input !== undefined) assert.deepStrictEqual(made, input)
    // Nothing finite matches a schema that contains itself.
    if (title !== "a schema that contains itself") assert.isTrue(ajv.validate(schema, made), JSON.stringify(made))
  })
}

/** As the gateway's tool `wait` has it. */
const properties = { seconds: { type: "integer" }, until: { type: "string" }, why: { type: "string" } }
const waiting: JsonSchema = { type: "object", properties, required: ["why"] }

for (const [question, input] of [
  ["Look again in a second.", { seconds: 1 }],
  ["Wait 20 Minutes.", { seconds: 1_200 }],
  ["Wait 90 days", { seconds: 2_592_000 }],
  ["Wait 0 seconds", { seconds: 1 }],
  ["Wait until 2026-05-17T10:00:00Z or for 5 days", { until: "2026-05-17T10:00:00Z" }],
  ["Wait for my word", { seconds: 60 }]
] as const) {
  it(`waits as the question says: ${question}`, () => {
    assert.deepStrictEqual(makeInput(waiting, question), { ...input, why: question })
  })
}
