import { Schema } from "effect"

/** A field that is null where the request did not name it. */
const orNull = <S extends Schema.Constraint>(schema: S) => Schema.NullOr(schema)

const Json = Schema.Record(Schema.String, Schema.Json)

/**
 * What a response repeats of its request. It is stored with the plan, so that every replica shows the same response, at any time. It has no
 * secrets: `tools` are without `authorization` and `headers`. `created_at` is in seconds. `labels` are the names of the plan's
 * agents and MCP servers, and `input` the items as they were asked, without their ids.
 */
export const ResponseEcho = Schema.Struct({
  type: Schema.tag("response"),
  created_at: Schema.Int,
  model: Schema.String,
  background: Schema.Boolean,
  store: Schema.Boolean,
  instructions: orNull(Schema.String),
  metadata: Schema.Record(Schema.String, Schema.String),
  previous_response_id: orNull(Schema.String),
  conversation: orNull(Schema.Struct({ id: Schema.String })),
  max_output_tokens: orNull(Schema.Int),
  max_tool_calls: orNull(Schema.Int),
  reasoning: Json,
  prompt_cache_key: Schema.optionalKey(Schema.String),
  safety_identifier: orNull(Schema.String),
  service_tier: orNull(Schema.String),
  temperature: orNull(Schema.Finite),
  text: Json,
  tools: Schema.Array(Json),
  parallel_tool_calls: Schema.optionalKey(Schema.Boolean),
  tool_choice: Schema.optionalKey(Schema.tag("none")),
  top_p: orNull(Schema.Finite),
  user: orNull(Schema.String),
  labels: Schema.Array(Schema.String),
  input: Schema.Array(Json)
})
export type ResponseEcho = typeof ResponseEcho.Type
