import { PlanState } from "@bowline/domain/plan/Plan"
import type { Overview } from "@bowline/domain/unstable/plan/Overview"
import type { TaskState } from "@bowline/domain/tool/TaskState"
import type { ReplicaId } from "@bowline/runtime/unstable/store/LeaseStore"
import {
  type CallsOf,
  type CallsQuery,
  failedCalls,
  most,
  type OverviewQuery
} from "@bowline/runtime/unstable/store/OverviewStore"
import type { SqlClient, Statement } from "effect/sql"
import { reasonOf } from "./PlanRow.ts"

/** In seconds, as Postgres measures. */
export type Seconds = readonly [p50: number, p95: number] | null

type Stretch = Overview["plans"] & {
  readonly stretch: number
  readonly first_token: number | null
  readonly duration: number | null
}

export interface PlansRow {
  readonly stretches: ReadonlyArray<Stretch>
  readonly first_token: Seconds
  readonly duration: Seconds
  readonly failures: Overview["failures"]
  readonly models: Overview["models"]
  readonly callers: Overview["callers"]
}

const counts = PlanState.literals.map((state) => `count(*) filter (where state = '${state}')::int as ${state}`).join()

const ofOwner = (sql: SqlClient.SqlClient, { owner }: OverviewQuery) =>
  owner === undefined ? sql`` : sql`and p.owner = ${owner}`

const within = (sql: SqlClient.SqlClient, column: "p.created_at" | "t.started_at", { since, until }: CallsQuery) =>
  sql`${sql.literal(column)} >= ${since}::timestamptz and ${sql.literal(column)} < ${until}::timestamptz`

/** An empty list is none, and not null. */
const listOf = (sql: SqlClient.SqlClient, rows: Statement.Fragment) =>
  sql`(select coalesce(json_agg(r), '[]') from (${rows}) r)`

const spentBy = (sql: SqlClient.SqlClient, column: "model" | "caller") =>
  listOf(
    sql,
    sql`
  select ${sql.literal(column)}, sum(plans)::int as plans, round(sum(cost_usd)::numeric, 12)::float8 as cost_usd, sum(plans - priced)::int as unpriced
  from spent group by 1 order by 3 desc nulls last, 2 desc, 1 limit ${most.groups}`
  )

/**
 * Reads the rows once, and counts in memory: 33,000 plans of a day are some 3 MB there. Percentiles of what was gathered by a hash are cheaper than
 * those of sorted groups.
 */
export const readPlans = (sql: SqlClient.SqlClient, query: OverviewQuery) => sql<PlansRow>`
with p as materialized (
  select p.state, p.owner as caller, p.model, p.cost_usd, p.error_code,
    case when p.error_code = 'aborted' then ${sql.literal(reasonOf)} end as reason,
    floor(date_part('epoch', p.created_at) * 1000 / ${query.stepMs})::bigint as stretch,
    date_part('epoch', p.first_token_at - p.created_at) as first_token,
    date_part('epoch', p.finished_at - p.created_at) as duration
  from plans p where ${within(sql, "p.created_at", query)} ${ofOwner(sql, query)}
), spent as materialized (
  select model, caller, count(*) as plans, count(cost_usd) as priced, sum(cost_usd) as cost_usd from p group by 1, 2
)
select ${listOf(
  sql,
  sql`
  select ${sql.literal(PlanState.literals.join())}, stretch,
    (select percentile_disc(0.95) within group (order by x) from unnest(first_tokens) x) as first_token,
    (select percentile_disc(0.95) within group (order by x) from unnest(durations) x) as duration
  from (
    select stretch, ${sql.literal(counts)}, array_agg(first_token) as first_tokens, array_agg(duration) as durations
    from p group by stretch
  ) s`
)} as stretches,
${listOf(
  sql,
  sql`
  select error_code, reason, count(*)::int as plans from p where error_code is not null
  group by 1, 2 order by 3 desc, 1, 2 limit ${most.groups}`
)} as failures,
${spentBy(sql, "model")} as models, ${spentBy(sql, "caller")} as callers, w.*
from (
  select percentile_disc(array[0.5, 0.95]) within group (order by first_token) as first_token,
    percentile_disc(array[0.5, 0.95]) within group (order by duration) as duration from p
) w`

export type ToolRow = Omit<Overview["tools"][number], "duration_ms"> & { readonly took: Seconds }

export const readTools = (sql: SqlClient.SqlClient, query: OverviewQuery) => sql<ToolRow>`
with called as (
  select t.tool, t.kind, count(*)::int as calls, count(*) filter (where ${sql.in("t.state", failedCalls)})::int as failures,
    array_agg(date_part('epoch', t.finished_at - t.started_at)) as tooks
  from tasks t where ${within(sql, "t.started_at", query)}
  ${
    query.owner === undefined
      ? sql``
      : sql`and t.plan_id in (select p.id from plans p where ${within(sql, "p.created_at", query)} ${ofOwner(sql, query)})`
  }
  group by t.tool, t.kind
), told as (
  select tool, kind, calls, failures,
    (select percentile_disc(array[0.5, 0.95]) within group (order by x) from unnest(tooks) x) as took
  from called
), ranked as (
  select *, row_number() over (order by took[2] desc nulls last, tool) as slow, row_number() over (order by failures desc, tool) as failing
  from told
)
select tool, kind, calls, failures, took from ranked
where slow <= ${most.tools} or failing <= ${most.tools} and failures > 0
order by slow`

export type CallsRow = Omit<CallsOf, "duration_ms" | "last_error"> & {
  readonly took: Seconds
  readonly failed_at: Date | null
  readonly error: { readonly message: string } | null
  readonly state: TaskState | null
}

/** The newest failure is found by its key: the rows themselves are read for the others only. */
export const readCalls = (sql: SqlClient.SqlClient, query: CallsQuery) => sql<CallsRow>`
with called as (
  select t.kind, coalesce(t.endpoint, t.agent) as called, count(*)::int as calls,
    count(*) filter (where ${sql.in("t.state", failedCalls)})::int as failures,
    array_agg(date_part('epoch', t.finished_at - t.started_at)) as tooks,
    max(array[to_char(t.started_at at time zone 'UTC', 'YYYYMMDDHH24MISSMS'), t.plan_id, t.id] collate "C")
      filter (where ${sql.in("t.state", failedCalls)}) as newest
  from tasks t where ${within(sql, "t.started_at", query)} and t.kind in ('peer', 'mcp') and t.agent is not null
  group by 1, 2
)
select c.kind, c.called, c.calls, c.failures,
  (select percentile_disc(array[0.5, 0.95]) within group (order by x) from unnest(c.tooks) x) as took,
  coalesce(t.finished_at, t.started_at) as failed_at, t.error, t.state
from called c left join lateral (select * from tasks t where t.plan_id = c.newest[2] and t.id = c.newest[3] limit 1) t on true
order by 1, 2`

export type OpenRow = Omit<Overview["open"][number], "oldest_at"> & {
  readonly oldest_at: Date
  readonly replica: ReplicaId
}

export const readOpen = (sql: SqlClient.SqlClient, query: OverviewQuery) => sql<OpenRow>`
select p.replica, p.state, p.stage, count(*)::int as plans, min(p.created_at) as oldest_at
from plans p where p.state in ('queued', 'running', 'waiting') ${ofOwner(sql, query)}
group by 1, 2, 3 order by 1, 2, 3`

export interface ReplicaRow {
  readonly id: ReplicaId
  readonly alive: boolean
}

export const readReplicas = (sql: SqlClient.SqlClient) =>
  sql<ReplicaRow>`select id, expires_at > now() as alive from replicas order by id`
