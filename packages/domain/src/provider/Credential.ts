import { Schema } from "effect"

/**
 * A credential as operators see it: by its configured id, never by its key. `out`: a window puts aside all its models. `cooldown`:
 * windows block some of its models, each named as `provider/model`. Only open windows are listed. The list includes models that
 * the provider does not have (`model_unavailable`): these windows hold for all its credentials, and do not change their states.
 * Timestamps are ISO 8601 in UTC.
 */
export const Credential = Schema.Struct({
  id: Schema.String,
  provider: Schema.String,
  state: Schema.Literals(["ok", "cooldown", "out"]),
  windows: Schema.Array(
    Schema.Struct({ model: Schema.NullOr(Schema.String), reason: Schema.String, until: Schema.String })
  ),
  last_used_at: Schema.NullOr(Schema.String)
})
export type Credential = typeof Credential.Type
