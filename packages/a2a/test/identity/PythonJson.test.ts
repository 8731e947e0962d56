import { assert, it } from "@effect/vitest"
import { Schema } from "effect"
import * as PythonJson from "../../src/identity/PythonJson.ts"
import { python } from "./fixtures/Python.ts"

it.each(python.requests)("writes $title as Python does", ({ body, did, dumped, timestamp }) => {
  assert.strictEqual(PythonJson.stringify({ timestamp, did, body }), dumped)
})

it.each(python.dumps)("sorts the keys of an object as Python does: $dumped", ({ dumped, fields }) => {
  assert.strictEqual(PythonJson.stringify(fields), dumped)
})

it.prop(
  "writes printable ASCII only, and nothing is lost",
  { fields: Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Int])) },
  ({ fields }) => {
    const written = PythonJson.stringify(fields)
    assert.match(written, /^[\x20-\x7e]*$/)
    assert.deepStrictEqual(JSON.parse(written), JSON.parse(JSON.stringify(fields)))
  }
)
