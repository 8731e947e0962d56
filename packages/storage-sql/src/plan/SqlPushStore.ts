import { NotFound } from "@bowline/domain/plan/Refusal"
import type { Delivery } from "@bowline/domain/unstable/plan/Webhook"
import {
  type ClaimedTarget,
  type DueDelivery,
  maxTargets,
  PushStore,
  type PushTarget,
  TooManyPushTargets,
  type Tried
} from "@bowline/runtime/unstable/store/PushStore"
import { Effect, Layer, Option, Struct } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"

type ClaimedRow = Pick<ClaimedTarget, "owner" | "task_id" | "fence"> &
  PushTarget & { readonly plan: number; readonly seq: number; readonly failing_since: Date | null }

const targetFields = ["id", "url", "wire", "scheme", "secrets", "webhook"] as const

const toClaimed = (row: ClaimedRow): ClaimedTarget => ({
  ...Struct.pick(row, ["owner", "task_id", "fence"]),
  target: Struct.pick(row, targetFields),
  cursor: { plan: row.plan, seq: row.seq },
  failing_since: row.failing_since === null ? null : row.failing_since.getTime()
})

type DeliveryRow = Omit<Delivery, "next_try_at"> & { readonly next_try_at: Date | null }

const toDelivery = (row: DeliveryRow): Delivery => ({ ...row, next_try_at: row.next_try_at?.toISOString() ?? null })

/** The plan's id is part of it: in a restored database a delivery is not taken for another one. */
const deliveryId = "'delivery_' || substr(d.task_id, 6) || '_' || d.ordinal"

const deliveryColumns = `${deliveryId} as delivery_id, t.url, d.event, d.state, d.tries, d.last_status,
  case when d.state = 'pending' then d.next_try_at end as next_try_at`

type DueRow = Omit<DueDelivery, "at" | "failing_since"> & { readonly at: Date; readonly failing_since: Date | null }

/** The number at the end of the id; one that no delivery has where there is none. */
const ordinalOf = (delivery: Delivery["delivery_id"]): string => /^delivery_.+_(\d{1,18})$/.exec(delivery)?.[1] ?? "0"

/** A statement may not write a row twice: what was tried, and the deliveries behind it, are written apart. */
const writeTried = (
  sql: SqlClient.SqlClient,
  isHeld: Statement.Fragment,
  ordinal: string,
  tried: Tried | { readonly retryInMs: number }
) => {
  const later = sql`now() + ${tried.retryInMs}::float8 * interval '1 millisecond'`
  const all = sql`d.task_id = h.task_id and d.target = h.id and d.state = 'pending'`
  const others = (set: Statement.Fragment) =>
    sql`others as (update deliveries d set ${set} from held h where ${all} and d.ordinal <> ${ordinal})`
  const writes =
    "state" in tried
      ? [
          sql`tried as (
  update deliveries d set state = ${tried.state}, tries = d.tries + 1, last_status = ${tried.status}::int, next_try_at = ${later},
    failing_since = to_timestamp(${tried.failing_since === null ? null : tried.failing_since / 1000}::float8)
  from held h where ${all} and d.ordinal = ${ordinal}
)`,
          ...(tried.state === "pending" ? [others(sql`next_try_at = ${later}`)] : []),
          ...(tried.isGone
            ? [
                others(sql`state = 'dropped'`),
                sql`stopped as (update push_targets t set events = '{}' from held h where t.task_id = h.task_id and t.id = h.id)`
              ]
            : [])
        ]
      : [sql`put_off as (update deliveries d set next_try_at = ${later} from held h where ${all})`]
  const held = sql`held as (select task_id, id from push_targets where ${isHeld} for no key update)`
  return Effect.map(sql`with ${sql.join(", ", false)([held, ...writes])} select 1 from held`, (rows) => rows.length > 0)
}

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
where (select count(*) from push_targets where task_id = ${task} and id <> ${id} and events is null) < ${maxTargets}
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
select id, url, wire, scheme, secrets, webhook from push_targets
where task_id = ${task} and owner = ${owner} and events is null order by ordinal`),
    remove: (owner, { id, task_id }) =>
      withDeadline(sql`
delete from push_targets where task_id = ${task_id} and id = ${id} and owner = ${owner} returning 1 as removed`).pipe(
        Effect.map((rows) => rows.length > 0)
      ),
    claim: (replica, running, limit) => {
      const isLeft = sql`case
    when t.replica = ${replica} then (t.task_id, t.id) not in (
      select r.task_id, r.id from json_to_recordset(${JSON.stringify(running)}::json) as r(task_id text, id text))
    else not exists (select from replicas r where r.id = t.replica and r.expires_at > now())
  end`
      return withDeadline(sql<ClaimedRow>`
with tasks as (
  select t.task_id, t.id from push_targets t
  where not t.is_over and ${isLeft} and t.plan < (
    select count(*) + (array_agg((p.task_cancelled_at is not null)::int order by p.ordinal desc))[1]
    from plans p where p.id = t.task_id or p.task_id = t.task_id and p.owner = t.owner
  )
  order by t.ordinal limit ${limit} for update skip locked
), webhooks as (
  select t.task_id, t.id from push_targets t
  join (select distinct task_id, target from deliveries where state = 'pending' and next_try_at <= now()) d
    on d.task_id = t.task_id and d.target = t.id
  where ${isLeft}
  order by t.ordinal limit ${limit} for update of t skip locked
), due as (select * from tasks union all select * from webhooks)
update push_targets t set replica = ${replica}, fence = t.fence + 1
from due where t.task_id = due.task_id and t.id = due.id
returning t.owner, t.task_id, t.fence, t.id, t.url, t.wire, t.scheme, t.secrets, t.webhook, t.plan, t.seq, t.failing_since`).pipe(
        Effect.map((rows) => rows.map(toClaimed))
      )
    },
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
    drop: (claimed) => withDeadline(sql`delete from push_targets where ${isHeld(claimed)}`).pipe(Effect.asVoid),
    nextDelivery: ({ target, task_id }) =>
      withDeadline(sql<DueRow>`
select ${sql.literal(deliveryId)} as delivery_id, d.event, d.at, d.wait, d.tries, d.failing_since,
  greatest(extract(epoch from d.next_try_at - now())::float8 * 1000, 0) as "dueInMs"
from deliveries d where d.task_id = ${task_id} and d.target = ${target.id} and d.state = 'pending'
order by d.ordinal limit 1`).pipe(
        Effect.map(([row]) =>
          Option.map(Option.fromNullishOr(row), (row) => ({
            ...row,
            at: row.at.toISOString(),
            failing_since: row.failing_since?.getTime() ?? null
          }))
        )
      ),
    tried: (claimed, delivery, tried) => withDeadline(writeTried(sql, isHeld(claimed), ordinalOf(delivery), tried)),
    deliveries: (owner, plan) =>
      withDeadline(sql<DeliveryRow>`
select ${sql.literal(deliveryColumns)} from deliveries d join push_targets t on t.task_id = d.task_id and t.id = d.target
where t.task_id = ${plan} and t.owner = ${owner} order by d.ordinal`).pipe(Effect.map((rows) => rows.map(toDelivery))),
    retry: (owner, plan, delivery, replica) =>
      withDeadline(sql<DeliveryRow>`
with again as (
  update deliveries d set state = 'pending', failing_since = null, next_try_at = now()
  from push_targets t
  where t.task_id = d.task_id and t.id = d.target and t.task_id = ${plan} and t.owner = ${owner}
    and d.ordinal = ${ordinalOf(delivery)}
  returning d.*
), had as (
  update push_targets t set replica = ${replica}, fence = t.fence + 1 from again d where t.task_id = d.task_id and t.id = d.target
)
select ${sql.literal(deliveryColumns)} from again d join push_targets t on t.task_id = d.task_id and t.id = d.target`).pipe(
        Effect.map(([row]) => Option.map(Option.fromNullishOr(row), toDelivery))
      )
  }
}

/** Places that are notified about tasks, in Postgres. */
export const layer = Layer.effect(
  PushStore,
  Effect.map(Effect.all([SqlClient.SqlClient, makeWithDeadline]), ([sql, withDeadline]) => make(sql, withDeadline))
)
