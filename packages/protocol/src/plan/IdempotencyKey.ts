import { Schema } from "effect"

/** The caller's own name of a request. A caller who sends it again gets the plan that the first request started. */
export const IdempotencyKey = Schema.String.annotate({
  description: "1..200 printable ASCII characters, kept for 24 h: the same key with the same body joins the plan"
}).check(
  Schema.isPattern(/^[\x20-\x7e]{1,200}$/u, {
    message: "Expected an Idempotency-Key of 1..200 printable ASCII characters"
  })
)
