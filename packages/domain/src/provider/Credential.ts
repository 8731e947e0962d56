import { Schema } from "effect"

/**
 * A key of a provider as operators see it: by its configured id, never by the key. `out`: a window binds all its models;
 * `cooldown`: one or more of them, each `provider/model`. Only windows that run are named, with those of models that the
 * provider does not have (`model_unavailable`): they bind all its credentials, and change the state of none. Timestamps are
 * ISO 8601 in UTC.
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
