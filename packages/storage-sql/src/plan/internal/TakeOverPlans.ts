import type { PlanId } from "@bowline/domain/plan/PlanId"
import type { TaskId } from "@bowline/domain/tool/TaskId"
import type { AbandonedPlan } from "@bowline/runtime/plan/PlanStore"
import type { ReplicaId } from "@bowline/runtime/session/LeaseStore"
import { Duration, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { planColumns, type PlanRow, toPlan } from "./PlanRow.ts"

interface TaskRow {
  readonly plan_id: PlanId
  readonly task_id: TaskId
  readonly tool: string
  readonly remote_task_id: string | null
  readonly remote_context_id: string | null
  readonly started_at: Date
}

const toOpenTask = (row: TaskRow): AbandonedPlan["open_tasks"][number] => ({
  task_id: row.task_id,
  tool: row.tool,
  remote_task_id: row.remote_task_id,
  remote_context_id: row.remote_context_id,
  started_at: row.started_at.toISOString()
})

/**
 * A queued plan is abandoned when its replica is dead; a running one when nobody holds its session, even if its replica lives:
 * one that was paused for longer than a lease may not write, and its plan would never end. Rows that somebody else has locked
 * are being written, or taken over: they are skipped, so that this waits for nobody and gives each plan to one replica.
 */
const take = (sql: SqlClient.SqlClient, replica: ReplicaId, ttl: Duration.Duration) => {
  const expires = sql`now() + ${Duration.toMillis(ttl)} * interval '1 millisecond'`
  return sql<PlanRow & { readonly fence: number }>`
with alive as (
  insert into replicas (id, expires_at) values (${replica}, ${expires})
  on conflict (id) do update set expires_at = excluded.expires_at
), dead as (
  delete from replicas where id in (
    select id from replicas where expires_at <= now() and id <> ${replica} for update skip locked)
), abandoned as materialized (
  select c.id, c.session_id, c.state, s.fence as session_fence
  from (
    select p.* from plans p
    where p.state in ('queued', 'running') and case
      when p.state = 'running' then not exists (
        select from leases l where l.session_id = p.session_id and l.expires_at > now())
      else p.replica <> ${replica} and not exists (
        select from replicas r where r.id = p.replica and r.expires_at > now())
    end
    order by p.session_id, p.id
  ) c
  cross join lateral (
    select s.fence from sessions s where s.id = c.session_id for no key update skip locked
  ) s
  cross join lateral (
    select from plans p where p.id = c.id and p.state = c.state and p.replica = c.replica and p.fence = c.fence
    for no key update skip locked
  ) p
), leased as (
  insert into leases as l (session_id, replica, fence, expires_at)
  select distinct on (session_id) session_id, ${replica}, session_fence + 1, ${expires}
  from abandoned where state = 'running' order by session_id
  on conflict (session_id) do update
    set replica = excluded.replica, fence = excluded.fence, expires_at = excluded.expires_at
    where l.expires_at <= now()
  returning session_id, fence
), fenced as (
  update sessions s set fence = l.fence from leased l where s.id = l.session_id
), taken as (
  update plans p set replica = ${replica}, fence = coalesce(l.fence, p.fence + 1)
  from abandoned a left join leased l on l.session_id = a.session_id and a.state = 'running'
  where p.id = a.id and (a.state = 'queued' or l.session_id is not null)
  returning p.*
)
select ${sql.literal(planColumns)}, p.fence from taken p order by p.ordinal`
}

/** What was written last: read behind the locks, since a statement sees nothing that was committed after it began. */
const readHeads = (sql: SqlClient.SqlClient, plans: ReadonlyArray<PlanId>) => sql<{
  readonly plan_id: PlanId
  readonly head: number
}>`
select p.id as plan_id, coalesce(
  (select e.seq + e.count - 1 from events e where e.plan_id = p.id order by e.seq desc limit 1), 0) as head
from plans p where ${sql.in("p.id", plans)}`

const readOpenTasks = (sql: SqlClient.SqlClient, plans: ReadonlyArray<PlanId>) => sql<TaskRow>`
select plan_id, id as task_id, tool, remote_task_id, remote_context_id, started_at
from tasks where ${sql.in("plan_id", plans)} and state = 'running' order by started_at, id`

export const takeOverPlans = (sql: SqlClient.SqlClient, replica: ReplicaId, ttl: Duration.Duration) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const taken = yield* take(sql, replica, ttl)
      if (taken.length === 0) return []
      const ids = taken.map(({ plan_id }) => plan_id)
      const heads = new Map((yield* readHeads(sql, ids)).map(({ plan_id, head }) => [plan_id, head]))
      const tasks = Map.groupBy(yield* readOpenTasks(sql, ids), ({ plan_id }) => plan_id)
      return taken.map((row): AbandonedPlan => ({
        plan: toPlan(row),
        guard:
          row.state === "queued" ? { _tag: "Queued", replica, fence: row.fence } : { _tag: "Held", fence: row.fence },
        head: heads.get(row.plan_id) ?? 0,
        open_tasks: (tasks.get(row.plan_id) ?? []).map(toOpenTask)
      }))
    })
  )
