import { Effect, Schema, Struct } from "effect"
import { Asker } from "../caller/IssuedKey.ts"
import { McpServer } from "../mcp/McpServer.ts"
import { Agent, TimeoutMs } from "../peer/Agent.ts"
import { GivenParts, GivenQuestion, QuestionPart, QuestionText } from "../file/QuestionPart.ts"
import { ApprovalPreference } from "./Approval.ts"
import { ExternalSessionId } from "../session/Session.ts"
import { ToolEffect } from "../tool/TaskState.ts"
import { ForkedFrom, PlanId } from "./Plan.ts"
import { Webhooks } from "./Webhook.ts"

const intBetween = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

/** How long somebody may take to answer a call, in milliseconds: from a second to 30 days. */
export const WaitTimeoutMs = intBetween(1_000, 2_592_000_000)

/** What happens to a plan whose last reader disconnects. */
export const OnDisconnect = Schema.Literals(["cancel", "continue"])
/** What happens to a plan whose session has another one: it waits, is refused, ends the other one (`superseded`), or is said to it instead. */
export const OnBusy = Schema.Literals(["queue", "reject", "interrupt", "steer"])
export type OnBusy = typeof OnBusy.Type
/** What becomes of a call whose peer or MCP server asks something: it ends with the question, or it waits for the answer. */
export const OnInputRequired = Schema.Literals(["end", "wait"])

/** What the final answer has to be: any text, or JSON that matches a JSON Schema of 2020-12, or of draft-07 or 2019-09 where its `$schema` says so. */
export const ResponseFormat = Schema.Union([
  Schema.Literal("text"),
  Schema.Struct({ type: Schema.tag("json_schema"), schema: Schema.Record(Schema.String, Schema.Json) })
]).annotate({ message: 'Expected "text" or {type: "json_schema", schema}' })
export type ResponseFormat = typeof ResponseFormat.Type

/** What a preference is that neither the request nor its preset says anything of. */
const defaults = {
  timeout_ms: 1_800_000,
  tool_timeout_ms: 600_000,
  max_steps: 25,
  max_hops: 5,
  max_tool_calls: 200,
  response_format: "text",
  on_disconnect: "cancel",
  on_busy: "queue",
  approval: "sensitive",
  wait_timeout_ms: 86_400_000,
  on_input_required: "end"
} as const

/** How a plan is to be run, as far as somebody has said it. Times in milliseconds. The contract names the defaults. */
export const GivenPreferences = Schema.Struct({
  timeout_ms: Schema.optionalKey(TimeoutMs.annotate({ default: defaults.timeout_ms })),
  tool_timeout_ms: Schema.optionalKey(TimeoutMs.annotate({ default: defaults.tool_timeout_ms })),
  max_steps: Schema.optionalKey(intBetween(1, 100).annotate({ default: defaults.max_steps })),
  max_hops: Schema.optionalKey(intBetween(0, 16).annotate({ default: defaults.max_hops })),
  max_tool_calls: Schema.optionalKey(intBetween(0, 1_000).annotate({ default: defaults.max_tool_calls })),
  max_total_tokens: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))),
  max_cost_usd: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThan(0))),
  model: Schema.optionalKey(Schema.String.check(Schema.isBetweenLength(1, 256))),
  response_format: Schema.optionalKey(ResponseFormat.annotate({ default: defaults.response_format })),
  on_disconnect: Schema.optionalKey(OnDisconnect.annotate({ default: defaults.on_disconnect })),
  disconnect_grace_ms: Schema.optionalKey(intBetween(0, 600_000)),
  on_busy: Schema.optionalKey(OnBusy.annotate({ default: defaults.on_busy })),
  approval: Schema.optionalKey(ApprovalPreference.annotate({ default: defaults.approval })),
  wait_timeout_ms: Schema.optionalKey(WaitTimeoutMs.annotate({ default: defaults.wait_timeout_ms })),
  on_input_required: Schema.optionalKey(OnInputRequired.annotate({ default: defaults.on_input_required })),
  may_wait: Schema.optionalKey(Schema.Boolean)
})
export type GivenPreferences = typeof GivenPreferences.Type

/** How a plan is run. */
export type Preferences = GivenPreferences & Required<Pick<GivenPreferences, keyof typeof defaults>>

/** At most 16 texts of the caller, 512 characters each, as are their keys. They are stored with the plan, and no model sees them. */
export const Metadata = Schema.Record(Schema.String, Schema.String.check(Schema.isMaxLength(512))).check(
  Schema.makeFilter((entries) => Object.keys(entries).length <= 16 || "Expected at most 16 entries"),
  Schema.makeFilter(
    (entries) => Object.keys(entries).every((key) => key.length <= 512) || "Expected keys of at most 512 characters"
  )
)

/** An earlier message, from a caller that keeps the history itself. */
export const HistoryEntry = Schema.Struct({ role: Schema.Literals(["user", "assistant"]), content: Schema.String })
const history = <S extends Schema.Constraint>(entry: S) =>
  Schema.Array(entry).pipe(
    Schema.check(Schema.isMaxLength(1_000)),
    Schema.withDecodingDefaultKey(Effect.succeed([])),
    Schema.withConstructorDefault(Effect.succeed([]))
  )

/** How the model is to answer. What the provider's wire does not have, or the model is known to refuse, is left out. */
export const Sampling = Schema.Struct({
  temperature: Schema.optionalKey(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 2 }))),
  top_p: Schema.optionalKey(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))),
  stop: Schema.optionalKey(
    Schema.Array(Schema.String.check(Schema.isBetweenLength(1, 512))).check(Schema.isMaxLength(4))
  ),
  seed: Schema.optionalKey(Schema.Int),
  reasoning_effort: Schema.optionalKey(Schema.Literals(["none", "minimal", "low", "medium", "high", "xhigh"])),
  /** What the prompts of a caller that begin alike have in common, for a provider that looks for them in its cache by it. */
  prompt_cache_key: Schema.optionalKey(Schema.String.check(Schema.isBetweenLength(1, 512))),
  /** Tokens of the step that ends the plan, with its reasoning. A step that calls a tool has no limit. */
  max_tokens: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)))
})
export type Sampling = typeof Sampling.Type

/**
 * The message of an A2A client that asks the question: the client's id of it, its metadata, and the first plan of the task that it
 * continues. Without one the plan begins a task of its own.
 */
export const TaskMessage = Schema.Struct({
  message_id: Schema.String,
  task_id: Schema.optionalKey(PlanId),
  metadata: Schema.Record(Schema.String, Schema.Json)
})
export type TaskMessage = typeof TaskMessage.Type

/** What becomes of the calls of a fork: they get what was recorded, they are made, or each of them waits for a decision first. */
export const ForkTools = Schema.Literals(["recorded", "live", "ask"])
export type ForkTools = typeof ForkTools.Type

/** Which plan a plan is a fork of, from which step on, and what becomes of its calls. */
export const Fork = Schema.Struct({ ...ForkedFrom.fields, tools: ForkTools })
export type Fork = typeof Fork.Type

/** The one call of a plan that asks no provider: a skill of one of its agents or a tool of one of its MCP servers, by their names, with what it takes. */
export const SkillCall = Schema.Struct({
  agent: Schema.String.check(Schema.isBetweenLength(1, 64)),
  skill: Schema.String.check(Schema.isBetweenLength(1, 256)),
  input: Schema.Record(Schema.String, Schema.Json)
})
export type SkillCall = typeof SkillCall.Type

/**
 * A tool that the client runs itself: a call of it waits until somebody has given its result to the plan's inbox. `output_schema` is what the
 * result has to match, unless it is an error; `approval` is as that of a skill; `wait_timeout_ms` is how long a call waits.
 */
export const ClientTool = Schema.Struct({
  name: Schema.String.check(
    Schema.isPattern(/^[A-Za-z0-9_-]{1,64}$/u, { message: "Expected 1 to 64 of A-Z a-z 0-9 _ -" })
  ),
  description: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(4_096))),
  input_schema: Schema.Record(Schema.String, Schema.Json),
  output_schema: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  approval: Schema.optionalKey(Schema.Literals(["never", "always"])),
  wait_timeout_ms: Schema.optionalKey(WaitTimeoutMs),
  effect: Schema.optionalKey(ToolEffect)
})
export type ClientTool = typeof ClientTool.Type

/**
 * The plan answers in legs: an answer ends where the plan waits for results of the client, which come with the next request. So nobody has to read
 * it while it waits. Unless they are `parallel`, at most one of its calls waits for the client at a time.
 */
export const Legs = Schema.Struct({ parallel: Schema.Boolean })
export type Legs = typeof Legs.Type

/**
 * A question, and how a plan answers it. `history` is for a new session only. `prior_summary` is the caller's summary
 * of its own earlier history. It stands in every prompt until a compaction of the session includes it. It may come with any request;
 * the session keeps every different one for as long as it lives. What the request names comes on top of its `preset`. Edges in other
 * protocols give what `PlanBody` does not have: `instructions` are added to those of the planner and the preset; `sampling` is for the steps of the plan, not for summaries; `session_ttl_ms` is how
 * long a session that the plan creates is kept after its last plan, in milliseconds and never longer than others. With 0 the next sweep
 * deletes it. `task_message` is an A2A client's. With `legs` its answers end where it waits for results. With `question_parts` the question has files: `question` is what its parts say as one text, and so is the `content` of an earlier message with `parts`. With a `call` the plan makes that call alone, and its result is the answer; the question only names it. `webhooks` are told how the plan ends, and that it waits. `asker` is what the gateway knows of the caller besides the name. With a `fork` its session begins with the history of another plan.
 *
 * @example
 * ```ts
 * import { ClientTool, HistoryEntry, Metadata, OnDisconnect, OnInputRequired, PlanBody, PlanRequest, resolve, WaitTimeoutMs } from "@bowline/domain/plan/PlanRequest"
 * import { Schema } from "effect"
 *
 * // What a caller may post, and what an app may ask for.
 * const body = Schema.decodeUnknownSync(PlanBody)({ question: "Is the knot safe?" })
 * const request = PlanRequest.make({
 *   ...body,
 *   instructions: "Answer in one sentence.",
 *   history: [HistoryEntry.make({ role: "user", content: "We leave tomorrow." })],
 *   metadata: Metadata.make({ ticket: "7" }),
 *   tools: [ClientTool.make({ name: "pick_boat", input_schema: {}, wait_timeout_ms: WaitTimeoutMs.make(60_000) })],
 *   preferences: { on_disconnect: OnDisconnect.make("continue"), on_input_required: OnInputRequired.make("wait") }
 * })
 *
 * console.log(resolve(request).preferences.timeout_ms)
 * ```
 */
export const PlanRequest = Schema.Struct({
  question: QuestionText,
  question_parts: Schema.optionalKey(Schema.Array(QuestionPart)),
  session_id: Schema.optionalKey(ExternalSessionId),
  preset: Schema.optionalKey(Schema.String.check(Schema.isBetweenLength(1, 64))),
  instructions: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(200_000))),
  sampling: Schema.optionalKey(Sampling),
  session_ttl_ms: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))),
  task_message: Schema.optionalKey(TaskMessage),
  legs: Schema.optionalKey(Legs),
  asker: Schema.optionalKey(Asker),
  call: Schema.optionalKey(SkillCall),
  fork: Schema.optionalKey(Fork),
  agents: Schema.Array(Agent).pipe(
    Schema.check(Schema.isMaxLength(64)),
    Schema.withDecodingDefaultKey(Effect.succeed([])),
    Schema.withConstructorDefault(Effect.succeed([]))
  ),
  mcp_servers: Schema.Array(McpServer).pipe(
    Schema.check(Schema.isMaxLength(16)),
    Schema.withDecodingDefaultKey(Effect.succeed([])),
    Schema.withConstructorDefault(Effect.succeed([]))
  ),
  tools: Schema.Array(ClientTool).pipe(
    Schema.check(Schema.isMaxLength(128)),
    Schema.withDecodingDefaultKey(Effect.succeed([])),
    Schema.withConstructorDefault(Effect.succeed([]))
  ),
  history: history(HistoryEntry.mapFields(Struct.assign({ parts: Schema.optionalKey(Schema.Array(QuestionPart)) }))),
  prior_summary: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(100_000))),
  webhooks: Schema.optionalKey(Webhooks),
  metadata: Metadata.pipe(
    Schema.withDecodingDefaultKey(Effect.succeed({})),
    Schema.withConstructorDefault(Effect.succeed({}))
  ),
  preferences: GivenPreferences.pipe(
    Schema.withDecodingDefaultKey(Effect.succeed({})),
    Schema.withConstructorDefault(Effect.succeed({}))
  )
})
export type PlanRequest = typeof PlanRequest.Type

/** The body of `POST /plan`. */
export const PlanBody = PlanRequest.mapFields(
  Struct.omit(["instructions", "sampling", "session_ttl_ms", "task_message", "legs", "asker", "fork", "question_parts"])
).mapFields(Struct.assign({ history: history(HistoryEntry) }))
export type PlanBody = typeof PlanBody.Type

/** The same, with a question that may have files. Who takes it in stores them, and makes a `PlanBody` with `question_parts` of it. */
export const AskBody = PlanBody.mapFields(Struct.assign({ question: GivenQuestion }))
export type AskBody = typeof AskBody.Type

/** What an edge in another protocol asks: the question, and earlier messages, may have files as their client sends them. */
export const AskRequest = PlanRequest.mapFields(
  Struct.assign({
    question: GivenQuestion,
    history: history(HistoryEntry.mapFields(Struct.assign({ parts: Schema.optionalKey(GivenParts) })))
  })
)
export type AskRequest = typeof AskRequest.Type

/** A request that says how its plan is run. */
export interface ResolvedRequest extends PlanRequest {
  readonly preferences: Preferences
}

/** Decides every preference: as the request says, else as its preset does, else the default. */
export const resolve = (request: PlanRequest, preset: GivenPreferences = {}): ResolvedRequest => ({
  ...request,
  preferences: { ...defaults, ...preset, ...request.preferences }
})
