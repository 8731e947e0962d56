import { type Plan, type PlanFacts, type PlanSummary, summarize } from "@bowline/domain/plan/Plan"
import { direct, type Route, traceIdOf } from "@bowline/runtime/remote/PeerClient"
import { shownIn } from "@bowline/runtime/unstable/store/StoredRequest"
import type { Schema } from "effect"

export interface Stored {
  readonly created_at: Date
  readonly deadline_at: Date | null
  readonly finished_at: Date | null
  /** Null where an earlier version has stored the plan. */
  readonly route: Route | null
}

type Shown = Omit<PlanFacts, "question">
type Row = Omit<Shown, keyof Stored | "trace_id"> & Stored

export type PlanRow = Row & Pick<Plan, "question">
export type WholeRow = PlanRow & { readonly request: Schema.Json | null }
export type SummaryRow = Row & Pick<PlanSummary, "question_preview">

const columns = `p.id as plan_id, p.session_id,
  (select s.external_id from sessions s where s.id = p.session_id) as external_session_id,
  p.state, p.stage, p.model, p.owner as caller, p.preset, p.created_at,
  case when p.left_ms is null then p.deadline_at end as deadline_at, p.finished_at, p.steps, p.tool_calls,
  p.retries, p.usage, p.cost_usd, p.final, p.error, p.metadata, p.route`

/** The columns of a `PlanRow`, of the plan `p`. */
export const planColumns = `${columns}, p.question`

/** The columns of a `WholeRow`. */
export const wholeColumns = `${planColumns}, p.request`

/** The columns of a `SummaryRow`. */
export const summaryColumns = `${columns}, left(p.question, 200) as question_preview`

/** The `reason` in the error of the plan `p`. Postgres cannot read into a document with an escaped NUL; within its texts the quotes are escaped. */
export const reasonOf = `substring(p.error::text from '"reason" ?: ?"([a-z_]+)"')`

const shown = (row: Row): Shown => ({
  plan_id: row.plan_id,
  session_id: row.session_id,
  external_session_id: row.external_session_id,
  state: row.state,
  stage: row.stage,
  model: row.model,
  caller: row.caller,
  trace_id: traceIdOf(row.route ?? direct),
  preset: row.preset,
  created_at: row.created_at.toISOString(),
  deadline_at: row.deadline_at?.toISOString() ?? null,
  finished_at: row.finished_at === null ? null : row.finished_at.toISOString(),
  steps: row.steps,
  tool_calls: row.tool_calls,
  retries: row.retries,
  usage: row.usage,
  cost_usd: row.cost_usd,
  final: row.final,
  error: row.error,
  metadata: row.metadata
})

export const toPlan = (row: PlanRow): PlanFacts => ({ ...shown(row), question: row.question })

export const toWhole = (row: WholeRow): Plan => ({ ...toPlan(row), ...shownIn(row.request) })

export const toSummary = (row: SummaryRow): PlanSummary => summarize(shown(row), row.question_preview)
