import { Schema } from "effect"
import { ExternalSessionId, SessionId } from "../session/Session.ts"
import { Failure, Final, Stage } from "./Outcome.ts"
import { Usage } from "./Usage.ts"

/** `plan_` and a UUID. */
export const PlanId = Schema.String.check(Schema.isPattern(/^plan_[0-9a-f-]{36}$/u)).pipe(Schema.brand("PlanId"))
export type PlanId = typeof PlanId.Type

export const PlanState = Schema.Literals(["queued", "running", "completed", "failed", "aborted"])
export type PlanState = typeof PlanState.Type

const fields = {
  plan_id: PlanId,
  session_id: SessionId,
  external_session_id: Schema.NullOr(ExternalSessionId),
  state: PlanState,
  stage: Schema.NullOr(Stage),
  model: Schema.String,
  preset: Schema.NullOr(Schema.String),
  created_at: Schema.String,
  deadline_at: Schema.String,
  finished_at: Schema.NullOr(Schema.String),
  steps: Schema.Int,
  tool_calls: Schema.Int,
  usage: Usage,
  final: Schema.NullOr(Final),
  error: Schema.NullOr(Failure),
  metadata: Schema.Record(Schema.String, Schema.String)
}

/** One run of the planner for one question. Timestamps are ISO 8601 in UTC. `preset` is the one that its request named. */
export const Plan = Schema.Struct({ ...fields, question: Schema.String })
export type Plan = typeof Plan.Type

/** A plan in a list: `question_preview` is the first 200 characters of its question. */
export const PlanSummary = Schema.Struct({ ...fields, question_preview: Schema.String })
export type PlanSummary = typeof PlanSummary.Type

export const isSettled = (plan: Pick<Plan, "state">): boolean => plan.state !== "queued" && plan.state !== "running"
