import type { PlanId } from "@bowline/domain/plan/Plan"
import type { SqlClient, Statement } from "effect/sql"

type Sql = SqlClient.SqlClient

/** How many waits one statement ends. */
const waitsAtOnce = 500

/**
 * The columns of the plan `p` that change where it is parked: from now on it is what a replica leaves that shuts down. Its time goes on when
 * a replica takes it over. A replica of the version before, which does not know that, gives it the rest of its time from now on.
 */
export const wakes = (sql: Sql, because: Statement.Fragment | string) => sql`
  state = case when p.state = 'waiting' then 'running' else p.state end,
  stage = case when p.state = 'waiting' then 'queue' else p.stage end,
  handed_over = p.handed_over or p.state = 'waiting',
  woken_by = case when p.state = 'waiting' then ${because} else p.woken_by end,
  deadline_at = case when p.state = 'waiting' then now() + p.left_ms * interval '1 millisecond' else p.deadline_at end,
  ends_at = case when p.state = 'waiting' then now() + p.left_ms * interval '1 millisecond' else p.ends_at end`

/** A wait that nothing has ended. */
export const isOpenWait = "w.settled_by is null and w.decision is null and not w.is_expired"

interface Expired {
  readonly waits: number
  readonly plans: ReadonlyArray<PlanId>
  readonly is_waking: boolean
}

/**
 * Ends the waits whose time is over, and counts them in the inboxes of their plans. It waits for nobody: a plan whose row somebody has locked has its
 * turn a second later. What the lock has waited for is looked at again in the newest row.
 */
export const expireWaits = (sql: Sql) => sql<Expired>`
with due as materialized (
  select w.plan_id, w.task_id from waits w where coalesce(w.ends_at, w.expires_at) <= now() and ${sql.literal(isOpenWait)}
  order by coalesce(w.ends_at, w.expires_at) limit ${waitsAtOnce}
), locked as materialized (
  select l.id from (select distinct plan_id from due order by plan_id) d
  cross join lateral (select p.id from plans p where p.id = d.plan_id for no key update skip locked) l
), ended as (
  update waits w set is_expired = true from due d join locked l on l.id = d.plan_id
  where w.plan_id = d.plan_id and w.task_id = d.task_id and ${sql.literal(isOpenWait)}
  returning w.plan_id, w.kind
), told as (
  update plans p set inbox_count = p.inbox_count + e.waits,
    ${wakes(sql, sql`case when e.is_timer then 'timer' else 'expired' end`)}
  from (select plan_id, count(*)::int as waits, bool_and(kind = 'timer') as is_timer from ended group by plan_id) e
  where p.id = e.plan_id and p.state in ('queued', 'running', 'waiting')
  returning p.id, p.woken_by
)
select (select count(*) from ended)::int as waits, coalesce(json_agg(id), '[]') as plans,
  coalesce(bool_or(woken_by is not null), false) as is_waking
from told`

/** Whether there may be more to end. */
export const isMore = ({ waits }: Expired): boolean => waits === waitsAtOnce
