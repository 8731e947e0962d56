import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, start } from "./RunningGateway.ts"

const knot = {
  type: "object",
  properties: { knot: { type: "string" } },
  required: ["knot"],
  additionalProperties: false
}

/** Where a caller may send a schema, and how the field is called there. */
const places = [
  {
    path: "/plan",
    field: "preferences.response_format.schema",
    body: (schema: object) => ({ question: "?", preferences: { response_format: { type: "json_schema", schema } } })
  },
  {
    path: "/plan",
    field: "agents[0].skills[0].input_schema",
    body: (input_schema: object) => ({
      question: "?",
      agents: [{ name: "bob", endpoint: "http://127.0.0.1:9/", skills: [{ id: "ask", input_schema }] }]
    })
  },
  {
    path: "/v1/chat/completions",
    field: "response_format",
    body: (schema: object) => ({
      model: "bowline",
      messages: [{ role: "user", content: "?" }],
      response_format: { type: "json_schema", json_schema: { name: "knot", strict: true, schema } }
    })
  },
  {
    path: "/v1/responses",
    field: "text.format",
    body: (schema: object) => ({
      model: "bowline",
      input: "?",
      text: { format: { type: "json_schema", name: "knot", strict: true, schema } }
    })
  }
]

const drafts = [
  "http://json-schema.org/draft-07/schema#",
  "https://json-schema.org/draft/2019-09/schema",
  "https://json-schema.org/draft/2020-12/schema"
]

describe.each(places)("a schema in $field of $path", ({ body, field, path }) => {
  it.live("is taken in each draft that its $schema may name, and refused with its field in any other", () =>
    Effect.gen(function* () {
      const { url } = yield* start(drafts.map(() => [say('{"knot":"bowline"}')]))
      for (const $schema of drafts) {
        const { status, text } = yield* post(`${url}${path}`, body({ $schema, ...knot }))
        assert.strictEqual(status, 200, text)
        assert.notInclude(text, "output_invalid")
      }
      const { status, text } = yield* post(
        `${url}${path}`,
        body({ $schema: "http://json-schema.org/draft-04/schema#", ...knot })
      )
      assert.strictEqual(status, 400)
      assert.include(text, field)
      assert.include(text, "Expected a $schema of JSON Schema draft-07, 2019-09 or 2020-12, or none")
    })
  )
})
