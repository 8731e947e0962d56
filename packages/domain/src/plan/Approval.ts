import { Schema } from "effect"
import { CallerName } from "../caller/CallerName.ts"
import { SessionId } from "../session/Session.ts"
import { TaskId } from "../tool/TaskState.ts"
import { PlanId } from "./Plan.ts"

/** Which calls of a plan wait for a person. */
export const ApprovalPreference = Schema.Literals(["never", "sensitive", "always"])
export type ApprovalPreference = typeof ApprovalPreference.Type

/** Why a call needs an approval. */
export const ApprovalReason = Schema.Literals([
  "sensitive",
  "always",
  "skill",
  "description_changed",
  "maybe_done",
  "fork"
])
export type ApprovalReason = typeof ApprovalReason.Type

/** What a person decides about a call, with a note for the model. */
export const Decision = Schema.Struct({
  decision: Schema.Literals(["approve", "reject"]),
  note: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(4_096)))
})
export type Decision = typeof Decision.Type

/** A decision, and the caller who made it. */
export const GivenDecision = Schema.Struct({ ...Decision.fields, by: CallerName })
export type GivenDecision = typeof GivenDecision.Type

/** A call that waits for a decision, of a tool that `agent` brings: a peer or an MCP server; null for other tools. It waits until the plan's deadline, which is `expires_at`. */
export const PendingApproval = Schema.Struct({
  plan_id: PlanId,
  session_id: SessionId,
  task_id: TaskId,
  tool: Schema.String,
  agent: Schema.NullOr(Schema.String),
  input: Schema.Json,
  why: ApprovalReason,
  expires_at: Schema.String,
  caller: CallerName
})
export type PendingApproval = typeof PendingApproval.Type
