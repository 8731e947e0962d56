import { Schema } from "effect"
import { CallerName } from "../caller/CallerName.ts"
import { Cost } from "./Usage.ts"

/** What spendings are added up by. */
export const SpendingBy = Schema.Literals(["day", "caller", "model", "preset"])
export type SpendingBy = typeof SpendingBy.Type

const count = Schema.Int

/**
 * What plans have used, of one day (`2026-01-02` in UTC), caller, model or preset, whichever it was asked by: null is no preset. A plan counts on the
 * day on which it starts, with the model that it starts with; tokens and cost count where they are spent. `cost_usd` is null where one of its
 * prices is not known.
 */
export const SpendingRow = Schema.Struct({
  day: Schema.optionalKey(Schema.String),
  caller: Schema.optionalKey(CallerName),
  model: Schema.optionalKey(Schema.String),
  preset: Schema.optionalKey(Schema.NullOr(Schema.String)),
  plans: count,
  input_tokens: count,
  cached_input_tokens: count,
  output_tokens: count,
  cost_usd: Cost
})
export type SpendingRow = typeof SpendingRow.Type
