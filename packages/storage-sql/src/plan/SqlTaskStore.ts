import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { TaskMessage } from "@bowline/domain/plan/PlanRequest"
import { NotFound } from "@bowline/domain/plan/Refusal"
import { handedBack, type TaskState } from "@bowline/domain/tool/TaskState"
import type { HandedBack } from "@bowline/runtime/unstable/store/SessionStore"
import {
  standingOf,
  type TaskCursor,
  type TaskFilter,
  type TaskPlan,
  TaskStore
} from "@bowline/runtime/unstable/store/TaskStore"
import { Array, Effect, Layer, type Schema } from "effect"
import { SqlClient } from "effect/sql"
import { makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"
import { isOpenWait } from "./internal/Waking.ts"
import { planColumns, type PlanRow, toPlan } from "./internal/PlanRow.ts"

const iso = (time: Date | null): string | null => time?.toISOString() ?? null

interface ChainRow extends PlanRow {
  readonly task_message: TaskMessage | null
  readonly task_cancelled_at: Date | null
}

const toTaskPlan = (row: ChainRow): TaskPlan => ({
  plan: toPlan(row),
  message: row.task_message,
  cancelled_at: iso(row.task_cancelled_at)
})

interface TaskRow extends PlanRow {
  readonly task_id: PlanId
  readonly open_call: TaskState | null
  readonly task_cancelled_at: Date | null
  readonly status_at: Date
  readonly total: number
}

/** `standingOf` in SQL. */
const standing = `case case n.state when 'waiting' then 'running' else n.state end
  when 'queued' then 'submitted'
  when 'running' then case n.stage when 'approval' then 'input-required'
    when 'client' then coalesce(n.open_call, 'input-required') else 'working' end
  when 'completed' then case when n.task_cancelled_at is not null then 'canceled'
    when n.open_call = 'auth-required' then 'auth-required'
    when n.open_call is null then 'completed' else 'input-required' end
  when 'failed' then case when n.steps = 0 and n.error->>'code' = 'budget_exceeded' then 'rejected' else 'failed' end
  else case when n.error->>'reason' in ('deadline', 'shutdown') then 'failed' else 'canceled' end
end`

const openStates = Array.fromIterable(handedBack)
  .map((state) => `'${state}'`)
  .join(", ")

const waitsFor = (kinds: string): string =>
  `exists (select from waits w where w.plan_id = p.id and w.kind ${kinds} and ${isOpenWait})`

/** The newest plan of every task of an owner. `open_call` is what `standingOf` takes as `open`. */
const newest = `select p.*, coalesce(p.task_id, p.id) as of_task, coalesce(p.task_cancelled_at, p.finished_at, p.created_at) as status_at,
case when p.finished_at is null then
  case when p.stage = 'client' and ${waitsFor("= 'account'")} and not ${waitsFor("not in ('account', 'timer')")} then 'auth-required' end
else (
  select t.state from tasks t where t.plan_id = p.id and t.state in (${openStates})
    and not exists (select from tasks l where l.plan_id = t.plan_id and l.tool = t.tool and l.ordinal > t.ordinal)
  order by t.ordinal desc limit 1
) end as open_call
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
  select ${sql.literal(planColumns)}, p.of_task as task_id, p.open_call, p.task_cancelled_at, p.status_at from found p
  ${cursor === undefined ? sql`` : sql`where (p.status_at, p.of_task) < (${cursor.status_at}::timestamptz, ${cursor.task_id})`}
  order by p.status_at desc, p.of_task desc limit ${limit + 1}
) p on true
order by p.status_at desc, p.task_id desc`
  const found = rows.flatMap((row) => {
    // A page without tasks has one row, with the total alone.
    if ((row.plan_id as string | null) === null) return []
    const plan = toPlan(row)
    const status_at = row.status_at.toISOString()
    return [
      { task_id: row.task_id, plan, standing: standingOf(plan, row.open_call, iso(row.task_cancelled_at)), status_at }
    ]
  })
  const items = found.slice(0, limit)
  return { items, next: found.length > limit ? (items.at(-1) ?? null) : null, total: rows[0]?.total ?? 0 }
})

const make = (sql: SqlClient.SqlClient, withDeadline: WithDeadline): TaskStore["Service"] => ({
  plans: (owner, task) =>
    withDeadline(sql<ChainRow>`
select ${sql.literal(planColumns)}, p.task_message, p.task_cancelled_at from plans p
where p.owner = ${owner} and (p.task_id = ${task} or p.id = ${task} and p.task_id is null)
order by p.ordinal`).pipe(
      Effect.flatMap((rows) =>
        Array.isReadonlyArrayNonEmpty(rows) && rows[0].plan_id === task
          ? Effect.succeed(Array.map(rows, toTaskPlan))
          : Effect.fail(new NotFound({ what: "plan" }))
      )
    ),
  told: (owner, tasks) =>
    tasks.length === 0
      ? Effect.succeed([])
      : withDeadline(sql<ChainRow & { readonly task_id: PlanId; readonly gist: Schema.Json | null }>`
select ${sql.literal(planColumns)}, coalesce(p.task_id, p.id) as task_id, p.task_message, p.task_cancelled_at, p.gist from plans p
where p.owner = ${owner} and (${sql.in("p.task_id", tasks)} or ${sql.in("p.id", tasks)} and p.task_id is null)
order by p.ordinal`).pipe(
          Effect.map((rows) => rows.map((row) => ({ ...toTaskPlan(row), task_id: row.task_id, gist: row.gist })))
        ),
  list: (owner, filter, page) => withDeadline(list(sql, owner, filter, page)),
  // One statement. It changes nothing if the plan runs on, or if another client was faster.
  cancel: (owner, last, now) =>
    withDeadline(sql<HandedBack>`
with cancelled as (
  update plans set task_cancelled_at = ${now}::timestamptz
  where id = ${last} and owner = ${owner} and state = 'completed' and task_cancelled_at is null
  returning coalesce(task_id, id) as task_id
), withdrawn as (
  update tasks t set reverted = true
  from cancelled c, plans p
  where (p.id = c.task_id or p.task_id = c.task_id and p.owner = ${owner}) and t.plan_id = p.id
    and t.state in (${sql.literal(openStates)})
  returning t.*, p.preset
)
select agent, endpoint, skill, remote_task_id, remote_context_id, preset from withdrawn
where agent is not null and endpoint is not null and skill is not null and remote_task_id is not null
order by ordinal`)
})

/** Tasks in Postgres. */
export const layer = Layer.effect(
  TaskStore,
  Effect.map(Effect.all([SqlClient.SqlClient, makeWithDeadline]), ([sql, withDeadline]) => make(sql, withDeadline))
)
