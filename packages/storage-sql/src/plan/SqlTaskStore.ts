import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { TaskMessage } from "@bowline/domain/plan/PlanRequest"
import { NotFound } from "@bowline/domain/plan/Refusal"
import { handedBack, type TaskState } from "@bowline/domain/tool/TaskState"
import { standingOf, type TaskCursor, type TaskFilter, TaskStore } from "@bowline/runtime/store/TaskStore"
import { Array, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"
import { planColumns, type PlanRow, toPlan } from "./internal/PlanRow.ts"

interface TaskRow extends PlanRow {
  readonly task_id: PlanId
  readonly open_call: TaskState | null
  readonly status_at: Date
  readonly total: number
}

/** `standingOf` in SQL. */
const standing = `case n.state
  when 'queued' then 'submitted'
  when 'running' then case when n.stage = 'approval' then 'input-required' else 'working' end
  when 'completed' then case n.open_call when 'auth-required' then 'auth-required' else
    case when n.open_call is null then 'completed' else 'input-required' end end
  when 'failed' then case when n.steps = 0 and n.error->>'code' = 'budget_exceeded' then 'rejected' else 'failed' end
  else case when n.error->>'reason' in ('deadline', 'shutdown') then 'failed' else 'canceled' end
end`

const openStates = Array.fromIterable(handedBack)
  .map((state) => `'${state}'`)
  .join(", ")

/** The newest plan of every task of an owner. */
const newest = `select p.*, coalesce(p.task_id, p.id) as of_task, coalesce(p.finished_at, p.created_at) as status_at, (
  select t.state from tasks t where t.plan_id = p.id and t.state in (${openStates})
    and not exists (select from tasks l where l.plan_id = t.plan_id and l.tool = t.tool and l.ordinal > t.ordinal)
  order by t.ordinal desc limit 1
) as open_call
from plans p where not exists (
  select from plans l where l.task_id = coalesce(p.task_id, p.id) and l.owner = p.owner and l.ordinal > p.ordinal
)`

const list = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  owner: CallerName,
  filter: TaskFilter,
  { cursor, limit }: { readonly limit: number; readonly cursor?: TaskCursor }
) {
  const rows = yield* sql<TaskRow>`
with found as (
  select n.* from (${sql.literal(newest)} and p.owner = ${owner}) n
  where ${sql.and([
    sql`true`,
    ...(filter.session === undefined ? [] : [sql`n.session_id = ${filter.session}`]),
    ...(filter.since === undefined ? [] : [sql`n.status_at >= ${filter.since}::timestamptz`]),
    ...(filter.standing === undefined ? [] : [sql`${sql.literal(standing)} = ${filter.standing}`])
  ])}
)
select c.total, p.*
from (select count(*)::int as total from found) c
left join lateral (
  select ${sql.literal(planColumns)}, p.of_task as task_id, p.open_call, p.status_at from found p
  ${cursor === undefined ? sql`` : sql`where (p.status_at, p.of_task) < (${cursor.status_at}::timestamptz, ${cursor.task_id})`}
  order by p.status_at desc, p.of_task desc limit ${limit + 1}
) p on true
order by p.status_at desc, p.task_id desc`
  const found = rows.flatMap((row) => {
    // A page without tasks has one row, with the total alone.
    if ((row.plan_id as string | null) === null) return []
    const plan = toPlan(row)
    const status_at = row.status_at.toISOString()
    return [{ task_id: row.task_id, plan, standing: standingOf(plan, row.open_call), status_at }]
  })
  const items = found.slice(0, limit)
  return { items, next: found.length > limit ? (items.at(-1) ?? null) : null, total: rows[0]?.total ?? 0 }
})

const make = (sql: SqlClient.SqlClient, withDeadline: WithDeadline): TaskStore["Service"] => ({
  plans: (owner, task) =>
    withDeadline(sql<PlanRow & { readonly task_message: TaskMessage | null }>`
select ${sql.literal(planColumns)}, p.task_message from plans p
where p.owner = ${owner} and (p.task_id = ${task} or p.id = ${task} and p.task_id is null)
order by p.ordinal`).pipe(
      Effect.flatMap((rows) =>
        Array.isReadonlyArrayNonEmpty(rows) && rows[0].plan_id === task
          ? Effect.succeed(Array.map(rows, (row) => ({ plan: toPlan(row), message: row.task_message })))
          : Effect.fail(new NotFound({ what: "plan" }))
      )
    ),
  list: (owner, filter, page) => withDeadline(list(sql, owner, filter, page))
})

/** Tasks in Postgres. */
export const layer = Layer.effect(
  TaskStore,
  Effect.map(Effect.all([SqlClient.SqlClient, makeWithDeadline]), ([sql, withDeadline]) => make(sql, withDeadline))
)
