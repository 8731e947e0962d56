import { Effect, Schema } from "effect"
import { CallerName } from "../caller/CallerName.ts"
import { FileId } from "../file/StoredFile.ts"
import { ApprovalReason, GivenDecision } from "./Approval.ts"
import { Compacted, ExternalSessionId } from "../session/Session.ts"
import { TaskId, TaskState, ToolKind } from "../tool/TaskState.ts"
import { EntryId, Failure, Final, WokenBy } from "./Outcome.ts"
import { PlanId } from "./Plan.ts"
import { Cost, Usage } from "./Usage.ts"

const event = <const Name extends string, const Fields extends Schema.Struct.Fields>(name: Name, fields: Fields) =>
  Schema.Struct({ event: Schema.tag(name), data: Schema.Struct(fields) })

const attempt = { step: Schema.Int, attempt: Schema.Int }

/** What a tool, or a peer, says went wrong. */
export const TaskError = Schema.Struct({ code: Schema.String, message: Schema.String })
export type TaskError = typeof TaskError.Type

/** Who named the DID of an agent: the caller, or the agent's own card. */
export const DidSource = Schema.Literals(["pinned", "observed"])
export type DidSource = typeof DidSource.Type

/** Whether all that a peer said is signed by its DID; `unknown` where nobody asked for it. */
export const Verified = Schema.Literals(["yes", "no", "unsigned", "unknown"])
export type Verified = typeof Verified.Type

/**
 * What a caller sees of a plan, in one total order. The payloads are those of `docs/reference/stream.md`, without
 * `plan_id`, `session_id` and `at`, which every frame on the wire has besides.
 *
 * @example
 * ```ts
 * import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
 *
 * export const shown = (item: PlanEvent): string => {
 *   switch (item.event) {
 *     case "text.delta":
 *       return item.data.delta
 *     case "task.started":
 *       return `[${item.data.tool}]`
 *     case "error":
 *       return `${item.data.code}: ${item.data.message}`
 *     default:
 *       return ""
 *   }
 * }
 * ```
 */
export const PlanEvent = Schema.Union([
  event("session", { external_session_id: Schema.NullOr(ExternalSessionId), created: Schema.Boolean }),
  event("plan", { model: Schema.String, deadline_at: Schema.String }),
  event("queued", { position: Schema.Int, reason: Schema.tag("session_busy") }),
  event("step", { step: Schema.Int, attempt: Schema.Int }),
  event("text.delta", { ...attempt, delta: Schema.String }),
  event("reasoning.delta", { ...attempt, delta: Schema.String }),
  event("retry", {
    ...attempt,
    error: TaskError,
    delay_ms: Schema.Int,
    credential: Schema.NullOr(Schema.String),
    model: Schema.String
  }),
  event("text.retract", { ...attempt, reason: Schema.optionalKey(Schema.tag("steered")) }),
  event("task.started", {
    task_id: TaskId,
    tool: Schema.String,
    kind: ToolKind,
    agent: Schema.NullOr(Schema.String),
    skill: Schema.NullOr(Schema.String),
    agent_did: Schema.NullOr(Schema.String),
    agent_did_source: Schema.NullOr(DidSource),
    input: Schema.Json
  }),
  event("task.progress", { task_id: TaskId, state: Schema.String, message: Schema.optionalKey(Schema.String) }),
  event("task.artifact", {
    task_id: TaskId,
    content: Schema.Json,
    media_type: Schema.String,
    truncated: Schema.Boolean,
    verified: Schema.optionalKey(Verified),
    name: Schema.optionalKey(Schema.String),
    /** Of a file: the content is its line, and its bytes are under its id. */
    file_id: Schema.optionalKey(FileId)
  }),
  event("task.finished", {
    task_id: TaskId,
    state: TaskState,
    remote_task_id: Schema.NullOr(Schema.String),
    remote_context_id: Schema.NullOr(Schema.String),
    duration_ms: Schema.Int,
    error: Schema.optionalKey(TaskError),
    repeat_of: Schema.optionalKey(TaskId)
  }),
  event("approval.requested", {
    task_id: TaskId,
    tool: Schema.String,
    // Earlier versions have stored events without it.
    agent: Schema.NullOr(Schema.String).pipe(Schema.withDecodingDefaultKey(Effect.succeed(null))),
    input: Schema.Json,
    expires_at: Schema.String,
    why: ApprovalReason,
    data: Schema.optionalKey(Schema.Json)
  }),
  event("approval.resolved", { task_id: TaskId, ...GivenDecision.fields }),
  event("inbox.accepted", { entry_id: EntryId, by: CallerName, text: Schema.String }),
  event("inbox.taken", { entry_id: EntryId, step: Schema.Int }),
  event("inbox.moved", { entry_id: EntryId, moved_to: Schema.NullOr(PlanId) }),
  event("waiting", {
    task_id: Schema.NullOr(TaskId),
    kind: Schema.Literals(["result", "answer", "account"]),
    round: Schema.Int,
    tool: Schema.NullOr(Schema.String),
    agent: Schema.NullOr(Schema.String),
    input: Schema.Json,
    message: Schema.optionalKey(Schema.String),
    data: Schema.optionalKey(Schema.Json),
    url: Schema.optionalKey(Schema.String),
    expires_at: Schema.String
  }),
  event("parked", { wakes_at: Schema.NullOr(Schema.String) }),
  event("woken", { because: WokenBy, deadline_at: Schema.String }),
  event("notice", { code: Schema.String, message: Schema.String, data: Schema.optionalKey(Schema.Json) }),
  event("compaction", Compacted.fields),
  event("usage", {
    ...attempt,
    ...Usage.fields,
    // Earlier versions have stored events without it.
    cost_usd: Cost.pipe(Schema.withDecodingDefaultKey(Effect.succeed(null)))
  }),
  event("final", Final.fields),
  event("error", Failure.fields),
  event("done", {})
])
export type PlanEvent = typeof PlanEvent.Type
