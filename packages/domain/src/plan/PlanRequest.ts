import { Effect, Schema } from "effect"
import { McpServer } from "../mcp/McpServer.ts"
import { Agent, TimeoutMs } from "../peer/Agent.ts"
import { ApprovalPreference } from "./Approval.ts"
import { ExternalSessionId } from "../session/Session.ts"

const intBetween = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

/** An integer that may be left out. The contract names its default. */
const intOr = (schema: typeof TimeoutMs, fallback: number) =>
  schema.annotate({ default: fallback }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(fallback)))

export const OnDisconnect = Schema.Literals(["cancel", "continue"])
export const OnBusy = Schema.Literals(["queue", "reject", "interrupt"])
export type OnBusy = typeof OnBusy.Type

/** What the final answer has to be: any text, or JSON that matches a JSON Schema 2020-12. */
export const ResponseFormat = Schema.Union([
  Schema.Literal("text"),
  Schema.Struct({ type: Schema.tag("json_schema"), schema: Schema.Record(Schema.String, Schema.Json) })
]).annotate({ message: 'Expected "text" or {type: "json_schema", schema}' })
export type ResponseFormat = typeof ResponseFormat.Type

/** How a plan is to be run. Times in milliseconds. */
export const Preferences = Schema.Struct({
  timeout_ms: intOr(TimeoutMs, 1_800_000),
  tool_timeout_ms: intOr(TimeoutMs, 600_000),
  max_steps: intOr(intBetween(1, 100), 25),
  max_hops: intOr(intBetween(0, 16), 5),
  max_tool_calls: intOr(intBetween(0, 1_000), 200),
  max_total_tokens: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))),
  model: Schema.optionalKey(Schema.String.check(Schema.isBetweenLength(1, 256))),
  response_format: ResponseFormat.annotate({ default: "text" }).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed("text" as const))
  ),
  on_disconnect: OnDisconnect.annotate({ default: "cancel" }).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed("cancel" as const))
  ),
  disconnect_grace_ms: Schema.optionalKey(intBetween(0, 600_000)),
  on_busy: OnBusy.annotate({ default: "queue" }).pipe(Schema.withDecodingDefaultKey(Effect.succeed("queue" as const))),
  approval: ApprovalPreference.annotate({ default: "sensitive" }).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed("sensitive" as const))
  )
})
export type Preferences = typeof Preferences.Type

export const Metadata = Schema.Record(Schema.String, Schema.String.check(Schema.isMaxLength(512))).check(
  Schema.makeFilter((entries) => Object.keys(entries).length <= 16 || "Expected at most 16 entries")
)

/** An earlier message, from a caller that keeps the history itself. */
export const HistoryEntry = Schema.Struct({ role: Schema.Literals(["user", "assistant"]), content: Schema.String })

/**
 * The body of `POST /plan`. `history` is for a new session only. `prior_summary` is the caller's summary
 * of its own earlier history. It stands in every prompt until a compaction of the session includes it. It may come with any request;
 * the session keeps every different one for as long as it lives.
 */
export const PlanRequest = Schema.Struct({
  question: Schema.String.check(
    Schema.makeFilter((text) => text.trim() !== "" || "Expected a question that is not blank"),
    Schema.isMaxLength(200_000)
  ),
  session_id: Schema.optionalKey(ExternalSessionId),
  agents: Schema.Array(Agent).pipe(
    Schema.check(Schema.isMaxLength(64)),
    Schema.withDecodingDefaultKey(Effect.succeed([]))
  ),
  mcp_servers: Schema.Array(McpServer).pipe(
    Schema.check(Schema.isMaxLength(16)),
    Schema.withDecodingDefaultKey(Effect.succeed([]))
  ),
  history: Schema.Array(HistoryEntry).pipe(
    Schema.check(Schema.isMaxLength(1_000)),
    Schema.withDecodingDefaultKey(Effect.succeed([]))
  ),
  prior_summary: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(100_000))),
  metadata: Metadata.pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  preferences: Preferences.pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))
})
export type PlanRequest = typeof PlanRequest.Type
