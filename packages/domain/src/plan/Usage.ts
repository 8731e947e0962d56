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

/** Nothing was used. */
export const empty: Usage = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0, reasoning_tokens: 0 }

/** US dollars. Null where nobody knows the price of a model. */
export const Cost = Schema.NullOr(Schema.Finite)
export type Cost = typeof Cost.Type

/** Not known if one of them is not. Twelve decimals are enough for one token, and leave out the noise of binary fractions. */
export const addCost = (a: Cost, b: Cost): Cost => (a === null || b === null ? null : Number((a + b).toFixed(12)))

const count = (tokens: number): number => Math.min(Math.max(Math.trunc(tokens), 0), Number.MAX_SAFE_INTEGER)

/** What a provider reported, as numbers that can be added and kept. */
export const sane = (usage: Usage): Usage => ({
  input_tokens: count(usage.input_tokens),
  output_tokens: count(usage.output_tokens),
  cached_input_tokens: count(usage.cached_input_tokens),
  reasoning_tokens: count(usage.reasoning_tokens)
})

/**
 * The sum of two usages.
 *
 * @example
 * ```ts
 * import { add, addCost, type Cost, empty, sane, type Usage } from "@bowline/domain/plan/Usage"
 *
 * export const total = (attempts: ReadonlyArray<{ readonly usage: Usage; readonly cost: Cost }>) => ({
 *   usage: attempts.reduce((sum, { usage }) => add(sum, sane(usage)), empty),
 *   cost: attempts.reduce<Cost>((sum, { cost }) => addCost(sum, cost), 0)
 * })
 * ```
 */
export const add = (a: Usage, b: Usage): Usage =>
  sane({
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    cached_input_tokens: a.cached_input_tokens + b.cached_input_tokens,
    reasoning_tokens: a.reasoning_tokens + b.reasoning_tokens
  })
