import type { GivenDecision, PendingApproval } from "@bowline/domain/plan/Approval"
import { ApprovalConflict, NotFound } from "@bowline/domain/plan/Refusal"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { ApprovalStore } from "@bowline/runtime/store/ApprovalStore"
import { Effect, Layer, Struct } from "effect"
import { SqlClient } from "effect/sql"
import { makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"
import { newestFirst } from "../internal/NewestFirst.ts"
import { storable } from "../internal/Storable.ts"

interface DecisionRow {
  readonly decision: GivenDecision["decision"]
  readonly note: string | null
  readonly by: GivenDecision["by"]
}

const toDecision = ({ by, decision, note }: DecisionRow): GivenDecision =>
  note === null ? { decision, by } : { decision, note, by }

const isDecided = (row: DecisionRow | { readonly decision: null }): row is DecisionRow => row.decision !== null

type PendingRow = Omit<PendingApproval, "expires_at"> & { readonly ordinal: bigint; readonly expires_at: Date }

const toPending = (row: PendingRow): PendingApproval => ({
  ...Struct.omit(row, ["ordinal"]),
  expires_at: row.expires_at.toISOString()
})

const make = (sql: SqlClient.SqlClient, withDeadline: WithDeadline): ApprovalStore["Service"] => ({
  decide: ({ plan_id, task_id }, { by, decision, note }, owner) => {
    const isTheirs = sql`a.plan_id = ${plan_id} and a.task_id = ${task_id} and p.id = a.plan_id
  and ${owner === undefined ? sql`true` : sql`p.owner = ${owner}`}`
    return withDeadline(
      Effect.gen(function* () {
        yield* sql`
update approvals a set decision = ${decision}, note = ${note === undefined ? null : storable(note)}, decided_by = ${by}
from plans p where ${isTheirs} and a.decision is null and p.state = 'running'`
        const [standing] = yield* sql<DecisionRow | { readonly decision: null }>`
select a.decision, a.note, a.decided_by as by from approvals a join plans p on ${isTheirs}`
        if (standing === undefined) return yield* new NotFound({ what: "approval" })
        return isDecided(standing) ? toDecision(standing) : yield* new ApprovalConflict({ standing: undefined })
      })
    )
  },
  decisions: (approvals) =>
    withDeadline(sql<DecisionRow & { readonly task_id: TaskId }>`
select a.task_id, a.decision, a.note, a.decided_by as by
from json_to_recordset(${JSON.stringify(approvals)}::json) as i(plan_id text, task_id text)
join approvals a on a.plan_id = i.plan_id and a.task_id = i.task_id
where a.decision is not null`).pipe(
      Effect.map((rows) => rows.map((row) => ({ task_id: row.task_id, decision: toDecision(row) })))
    ),
  pending: (owner, { cursor, limit }) =>
    withDeadline(sql<PendingRow>`
select a.plan_id, p.session_id, a.task_id, a.tool, a.input, a.why, p.deadline_at as expires_at, p.owner as caller, a.ordinal
from plans p join approvals a on a.plan_id = p.id
where p.owner = ${owner} and p.state = 'running' and a.decision is null
  ${cursor === undefined ? sql`` : sql`and a.ordinal < ${cursor}`}
order by a.ordinal desc limit ${limit + 1}`).pipe(Effect.map((rows) => newestFirst(rows, limit, toPending)))
})

/** Approvals in Postgres. */
export const layer = Layer.effect(
  ApprovalStore,
  Effect.map(Effect.all([SqlClient.SqlClient, makeWithDeadline]), ([sql, withDeadline]) => make(sql, withDeadline))
)
