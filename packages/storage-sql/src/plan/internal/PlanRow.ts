import type { Plan } from "@bowline/domain/plan/Plan"

export type PlanRow = Omit<Plan, "created_at" | "deadline_at" | "finished_at"> & {
  readonly created_at: Date
  readonly deadline_at: Date
  readonly finished_at: Date | null
}

/** The columns of a `PlanRow`, of the plan `p`. */
export const planColumns = `p.id as plan_id, p.session_id,
  (select s.external_id from sessions s where s.id = p.session_id) as external_session_id,
  p.state, p.stage, p.model, p.created_at, p.deadline_at, p.finished_at, p.steps, p.tool_calls, p.usage,
  p.final, p.error, p.metadata`

export const toPlan = (row: PlanRow): Plan => ({
  plan_id: row.plan_id,
  session_id: row.session_id,
  external_session_id: row.external_session_id,
  state: row.state,
  stage: row.stage,
  model: row.model,
  created_at: row.created_at.toISOString(),
  deadline_at: row.deadline_at.toISOString(),
  finished_at: row.finished_at === null ? null : row.finished_at.toISOString(),
  steps: row.steps,
  tool_calls: row.tool_calls,
  usage: row.usage,
  final: row.final,
  error: row.error,
  metadata: row.metadata
})
