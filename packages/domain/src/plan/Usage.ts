import { Schema } from "effect"

const Tokens = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** Tokens. `input_tokens` includes what was read from and written to a cache. */
export const Usage = Schema.Struct({
  input_tokens: Tokens,
  output_tokens: Tokens,
  cached_input_tokens: Tokens,
  reasoning_tokens: Tokens
})
export type Usage = typeof Usage.Type

export const empty: Usage = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0, reasoning_tokens: 0 }

export const add = (a: Usage, b: Usage): Usage => ({
  input_tokens: a.input_tokens + b.input_tokens,
  output_tokens: a.output_tokens + b.output_tokens,
  cached_input_tokens: a.cached_input_tokens + b.cached_input_tokens,
  reasoning_tokens: a.reasoning_tokens + b.reasoning_tokens
})
