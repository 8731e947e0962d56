import { Schema } from "effect"
import { AbortReason } from "./AbortReason.ts"
import { Stage } from "./Stage.ts"
import { Usage } from "./Usage.ts"

/** Why a completed plan stopped. */
export const StopReason = Schema.Literals([
  "stop",
  "max_steps",
  "max_tool_calls",
  "max_tokens",
  "content_filter",
  "refusal",
  "pause"
])
export type StopReason = typeof StopReason.Type

/** The payload of a `final` frame. */
export const Final = Schema.Struct({
  stop_reason: StopReason,
  text: Schema.String,
  usage: Usage,
  steps: Schema.Int,
  tool_calls: Schema.Int,
  duration_ms: Schema.Int
})
export type Final = typeof Final.Type

/** The payload of an `error` frame. `stage` is null where nothing was waited for. */
export const Failure = Schema.Struct({
  code: Schema.String,
  message: Schema.String,
  retryable: Schema.Boolean,
  stage: Schema.NullOr(Stage),
  reason: Schema.optionalKey(AbortReason),
  data: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
})
export type Failure = typeof Failure.Type

/** How a plan ended: exactly one of these. */
export type Outcome =
  | { readonly state: "completed"; readonly final: Final }
  | { readonly state: "failed" | "aborted"; readonly error: Failure }
