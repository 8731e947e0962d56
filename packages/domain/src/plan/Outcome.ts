import { Schema } from "effect"
import { Usage } from "./Usage.ts"

/** Why a plan was ended from outside its own logic. The first reason wins. */
export const AbortReason = Schema.Literals(["disconnect", "deadline", "cancelled", "superseded", "shutdown"])
export type AbortReason = typeof AbortReason.Type

/**
 * Whether the same question may be asked again as it is.
 *
 * @example
 * ```ts
 * import { isRetryable, type Outcome } from "@bowline/domain/plan/Outcome"
 *
 * export const mayAskAgain = (outcome: Outcome): boolean => {
 *   if (outcome.state === "completed") return false
 *   const { reason, retryable } = outcome.error
 *   return reason === undefined ? retryable : isRetryable(reason)
 * }
 * ```
 */
export const isRetryable = (reason: AbortReason): boolean => reason === "shutdown" || reason === "deadline"

/** What a plan waits for. An abort, a time-out or a crash names the stage in which it came. */
export const Stage = Schema.Literals(["queue", "provider", "backoff", "tool", "client", "approval", "compaction"])
export type Stage = typeof Stage.Type

/** What wakes a parked plan: something that is said to it, an account, the end of a wait, that of the tool `wait`, or an abort. */
export const WokenBy = Schema.Literals(["entry", "account", "expired", "timer", "abort"])
export type WokenBy = typeof WokenBy.Type

/** Why a completed plan stopped. */
export const StopReason = Schema.Literals([
  "stop",
  "max_steps",
  "max_tool_calls",
  "max_total_tokens",
  "max_cost",
  "max_tokens",
  "content_filter",
  "refusal",
  "pause",
  "loop"
])
export type StopReason = typeof StopReason.Type

/** `entry_` and a UUID: the id of an entry of a plan's inbox. */
export const EntryId = Schema.String.check(Schema.isPattern(/^entry_[0-9a-f-]{36}$/u)).pipe(Schema.brand("EntryId"))
export type EntryId = typeof EntryId.Type

/** The entries that a plan has left: it was over before it could take them. */
const untaken = Schema.optionalKey(Schema.Array(EntryId))

/**
 * The payload of a `final` frame. `output` is the parsed text of an answer that had to match a JSON Schema. The entries in `moved` are
 * the question of that plan.
 */
export const Final = Schema.Struct({
  stop_reason: StopReason,
  text: Schema.String,
  output: Schema.optionalKey(Schema.Json),
  usage: Usage,
  steps: Schema.Int,
  tool_calls: Schema.Int,
  duration_ms: Schema.Int,
  moved: Schema.optionalKey(Schema.Array(Schema.Struct({ entry_id: EntryId, plan_id: Schema.String }))),
  untaken
})
export type Final = typeof Final.Type

/** The payload of an `error` frame. `stage` is null if the plan did not wait for anything. */
export const Failure = Schema.Struct({
  code: Schema.String,
  message: Schema.String,
  retryable: Schema.Boolean,
  stage: Schema.NullOr(Stage),
  reason: Schema.optionalKey(AbortReason),
  data: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  untaken
})
export type Failure = typeof Failure.Type

/** How a plan ended: exactly one of these. */
export type Outcome =
  | { readonly state: "completed"; readonly final: Final }
  | { readonly state: "failed" | "aborted"; readonly error: Failure }
