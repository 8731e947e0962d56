import { NotFound } from "@bowline/domain/plan/Refusal"
import {
  type ClaimedTarget,
  maxTargets,
  PushStore,
  type PushTarget,
  TooManyPushTargets
} from "@bowline/runtime/unstable/store/PushStore"
import { Effect, Layer, Option, Struct } from "effect"
import { SqlClient } from "effect/sql"
import { makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"

type ClaimedRow = Pick<ClaimedTarget, "owner" | "task_id" | "fence"> &
  PushTarget & { readonly plan: number; readonly seq: number; readonly failing_since: Date | null }

const targetFields = ["id", "url", "wire", "scheme", "secrets"] as const

const toClaimed = (row: ClaimedRow): ClaimedTarget => ({
  ...Struct.pick(row, ["owner", "task_id", "fence"]),
  target: Struct.pick(row, targetFields),
  cursor: { plan: row.plan, seq: row.seq },
  failing_since: row.failing_since === null ? null : row.failing_since.getTime()
})

const make = (sql: SqlClient.SqlClient, withDeadline: WithDeadline): PushStore["Service"] => {
  const isHeld = ({ fence, target, task_id }: ClaimedTarget) =>
    sql`task_id = ${task_id} and id = ${target.id} and fence = ${fence}`
  return {
    // Locks the plan first: the count has to see the targets that others add meanwhile.
    put: (owner, task, { id, scheme, secrets, url, wire }, { cursor, replica }) =>
      withDeadline(
        sql.withTransaction(
          Effect.gen(function* () {
            const [plan] = yield* sql`select from plans where id = ${task} and owner = ${owner} for no key update`
            if (plan === undefined) return yield* new NotFound({ what: "plan" })
            const written = yield* sql`
insert into push_targets as t (task_id, id, owner, url, wire, scheme, secrets, replica, plan, seq)
select ${task}, ${id}, ${owner}, ${url}, ${wire}, ${scheme}, ${secrets}, ${replica}, ${cursor.plan}::int, ${cursor.seq}::int
where (select count(*) from push_targets where task_id = ${task} and id <> ${id}) < ${maxTargets}
on conflict (task_id, id) do update set url = excluded.url, wire = excluded.wire, scheme = excluded.scheme,
  secrets = excluded.secrets, replica = excluded.replica, plan = excluded.plan, seq = excluded.seq, failing_since = null,
  is_over = false, fence = t.fence + 1
returning 1 as written`
            if (written.length === 0) return yield* new TooManyPushTargets()
          })
        )
      ),
    list: (owner, task) =>
      withDeadline(sql<PushTarget>`
select id, url, wire, scheme, secrets from push_targets where task_id = ${task} and owner = ${owner} order by ordinal`),
    remove: (owner, { id, task_id }) =>
      withDeadline(sql`
delete from push_targets where task_id = ${task_id} and id = ${id} and owner = ${owner} returning 1 as removed`).pipe(
        Effect.map((rows) => rows.length > 0)
      ),
    claim: (replica, running, limit) =>
      withDeadline(sql<ClaimedRow>`
with due as (
  select t.task_id, t.id from push_targets t
  where not t.is_over and case
    when t.replica = ${replica} then (t.task_id, t.id) not in (
      select r.task_id, r.id from json_to_recordset(${JSON.stringify(running)}::json) as r(task_id text, id text))
    else not exists (select from replicas r where r.id = t.replica and r.expires_at > now())
  end and t.plan < (
    select count(*) + (array_agg((p.task_cancelled_at is not null)::int order by p.ordinal desc))[1]
    from plans p where p.id = t.task_id or p.task_id = t.task_id and p.owner = t.owner
  )
  order by t.ordinal limit ${limit} for update skip locked
)
update push_targets t set replica = ${replica}, fence = t.fence + 1
from due where t.task_id = due.task_id and t.id = due.id
returning t.owner, t.task_id, t.fence, t.id, t.url, t.wire, t.scheme, t.secrets, t.plan, t.seq, t.failing_since`).pipe(
        Effect.map((rows) => rows.map(toClaimed))
      ),
    progress: (claimed, progress) =>
      withDeadline(
        Option.match(progress, {
          onNone: () => sql`update push_targets set is_over = true where ${isHeld(claimed)} returning 1 as held`,
          onSome: ({ cursor, failing_since }) => sql`
update push_targets set plan = ${cursor.plan}, seq = ${cursor.seq},
  failing_since = to_timestamp(${failing_since === null ? null : failing_since / 1000}::float8)
where ${isHeld(claimed)} returning 1 as held`
        })
      ).pipe(Effect.map((rows) => rows.length > 0)),
    drop: (claimed) => withDeadline(sql`delete from push_targets where ${isHeld(claimed)}`).pipe(Effect.asVoid)
  }
}

/** Places that are notified about tasks, in Postgres. */
export const layer = Layer.effect(
  PushStore,
  Effect.map(Effect.all([SqlClient.SqlClient, makeWithDeadline]), ([sql, withDeadline]) => make(sql, withDeadline))
)
