import { Schema, SchemaTransformation } from "effect"

const Hops = Schema.String.annotate({ description: "How many gateways the plan has come through" })
  .check(Schema.isPattern(/^\d{1,15}$/u, { message: "Expected an integer >= 0" }))
  .pipe(Schema.decodeTo(Schema.Int, SchemaTransformation.numberFromString))

const idsPattern = /^[A-Za-z0-9._:-]{1,128}(?:\s*,\s*[A-Za-z0-9._:-]{1,128}){0,63}$/u

const Via = Schema.String.annotate({ description: "Their ids, comma separated, the first one first" })
  .check(Schema.isPattern(idsPattern, { message: "Expected at most 64 ids of gateways, comma separated" }))
  .pipe(
    Schema.decodeTo(
      Schema.Array(Schema.String),
      SchemaTransformation.transform({
        decode: (text): ReadonlyArray<string> => text.split(",").map((id) => id.trim()),
        encode: (ids: ReadonlyArray<string>) => ids.join(",")
      })
    )
  )

/** The gateways that a plan has come through, when gateways call each other. */
export const routeHeaders = { "x-bowline-hops": Schema.optionalKey(Hops), "x-bowline-via": Schema.optionalKey(Via) }

/** The caller's own name of a request. A caller who sends it again gets the plan that the first request started. */
export const IdempotencyKey = Schema.String.annotate({
  description: "1..200 printable ASCII characters, kept for 24 h: the same key with the same body joins the plan"
}).check(
  Schema.isPattern(/^[\x20-\x7e]{1,200}$/u, {
    message: "Expected an Idempotency-Key of 1..200 printable ASCII characters"
  })
)
