import { Schema, Struct } from "effect"
import { CallerName } from "../caller/CallerName.ts"
import { ExternalSessionId, SessionId } from "../session/Session.ts"
import { Failure, Final, Stage } from "./Outcome.ts"
import { Cost, Usage } from "./Usage.ts"

/** `plan_` and a UUID. */
export const PlanId = Schema.String.check(Schema.isPattern(/^plan_[0-9a-f-]{36}$/u)).pipe(Schema.brand("PlanId"))
export type PlanId = typeof PlanId.Type

/** `queued`, `running` and `waiting` plans are not over. One that is `waiting` is parked: no process has it, until what it waits for has come. */
export const PlanState = Schema.Literals(["queued", "running", "waiting", "completed", "failed", "aborted"])
export type PlanState = typeof PlanState.Type

/** Where a plan goes on from: the history of that plan up to before this step. */
export const ForkedFrom = Schema.Struct({ plan_id: PlanId, step: Schema.Int })
export type ForkedFrom = typeof ForkedFrom.Type

const fields = {
  plan_id: PlanId,
  session_id: SessionId,
  external_session_id: Schema.NullOr(ExternalSessionId),
  state: PlanState,
  stage: Schema.NullOr(Stage),
  model: Schema.String,
  caller: CallerName,
  trace_id: Schema.NullOr(Schema.String),
  preset: Schema.NullOr(Schema.String),
  created_at: Schema.String,
  deadline_at: Schema.NullOr(Schema.String),
  finished_at: Schema.NullOr(Schema.String),
  steps: Schema.Int,
  tool_calls: Schema.Int,
  retries: Schema.Int,
  usage: Usage,
  cost_usd: Cost,
  error: Schema.NullOr(Failure),
  metadata: Schema.Record(Schema.String, Schema.String)
}

/**
 * One run of the planner for one question. Timestamps are ISO 8601 in UTC. `preset` is the one that its request named. `trace_id` is
 * that of W3C Trace Context, 32 digits in hex; null if the plan is no part of a trace. `retries` counts attempts that took the place of
 * failed ones. `cost_usd` is what its attempts have cost so far, null where nobody knows the price of a model that it asked. `request` is the
 * body that asked for it, without secrets; null where an earlier version has stored the plan. `deadline_at` is null while the plan is parked. Only a fork has `forked_from`.
 */
export const Plan = Schema.Struct({
  ...fields,
  question: Schema.String,
  final: Schema.NullOr(Final),
  request: Schema.NullOr(Schema.Record(Schema.String, Schema.Json)),
  forked_from: Schema.optionalKey(ForkedFrom)
})
export type Plan = typeof Plan.Type

/** A plan for those who do not need its request, which may be long. */
export type PlanFacts = Omit<Plan, "forked_from" | "request">

const answerTexts = ["text", "output"] as const

/** A plan in a list: `question_preview` is the first 200 characters of its question, and `final` has no answer. */
export const PlanSummary = Schema.Struct({
  ...fields,
  question_preview: Schema.String,
  final: Schema.NullOr(Final.mapFields(Struct.omit(answerTexts)))
})
export type PlanSummary = typeof PlanSummary.Type

/** A plan as lists show it, whose question begins with this. */
export const summarize = ({ final, ...plan }: Omit<PlanFacts, "question">, question_preview: string): PlanSummary => ({
  ...plan,
  question_preview,
  final: final === null ? null : Struct.omit(final, answerTexts)
})

/**
 * Whether the plan is over.
 *
 * @example
 * ```ts
 * import { isSettled, type Plan, summarize } from "@bowline/domain/plan/Plan"
 *
 * // The plans that are over, as a list shows them.
 * export const settled = (plans: ReadonlyArray<Plan>) =>
 *   plans.filter(isSettled).map(({ forked_from, question, request, ...plan }) => summarize(plan, question.slice(0, 200)))
 * ```
 */
export const isSettled = ({ state }: Pick<Plan, "state">): boolean =>
  state !== "queued" && state !== "running" && state !== "waiting"
