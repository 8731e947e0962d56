import type { SessionId } from "@bowline/domain/session/Session"
import { firingsKeptFor } from "@bowline/runtime/unstable/store/ScheduleStore"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { foldCharges } from "../../caller/internal/Charges.ts"

/** How many rows one statement deletes. */
const sessionsAtOnce = 20
const plansAtOnce = 50
const eventsAtOnce = 5_000
const keysAtOnce = 500

/** How many batches of events a deletion purges itself. The sweeper purges the rest, which no caller can see any more. */
const batchesOfDeletion = 20

/**
 * Deletes locked sessions and everything that references them. Events have no foreign key: without their plan no caller can see
 * them, and `deleted_plans` lists whose events are still to be purged. A file that only they have is swept next.
 */
const remove = (sql: SqlClient.SqlClient, sessions: ReadonlyArray<SessionId>) =>
  sql<{ readonly plan_id: string }>`
with noted as (
  insert into deleted_plans (id) select id from plans where ${sql.in("session_id", sessions)} returning id
), left_alone as (
  update files f set expires_at = least(f.expires_at, now())
  where f.id in (select file_id from session_files where ${sql.in("session_id", sessions)})
    and not exists (
      select from session_files o where o.file_id = f.id and not ${sql.in("o.session_id", sessions)}
    )
), gone as (
  delete from sessions where ${sql.in("id", sessions)}
)
select id as plan_id from noted`.pipe(Effect.map((rows) => rows.map(({ plan_id }) => plan_id)))

/**
 * Purges a batch of events of deleted plans, and those that are sealed. Removes the plans from `deleted_plans` when no event is left. Arrays have it look
 * each of them up by an index, however few rows the tables seem to have.
 */
const purge = (sql: SqlClient.SqlClient, plans?: ReadonlyArray<string>) =>
  sql<{ readonly plans: number; readonly events: number }>`
with next as materialized (
  select id from deleted_plans ${plans === undefined ? sql`` : sql`where ${sql.in("id", plans)}`}
  limit ${plansAtOnce} for update skip locked
), gone as (
  delete from events where ctid = any(array(
    select e.ctid from next
    cross join lateral (select ctid from events where plan_id = next.id limit ${eventsAtOnce}) e
    limit ${eventsAtOnce}
  ))
  returning 1
), unsealed as (
  delete from sealed where plan_id = any(array(select id from next))
), forgotten as (
  delete from deleted_plans where id in (select id from next) and (select count(*) from gone) < ${eventsAtOnce}
)
select (select count(*) from next)::int as plans, (select count(*) from gone)::int as events`.pipe(
    Effect.map(([row]) => ({ plans: row?.plans ?? 0, events: row?.events ?? 0 }))
  )

const purgeAll = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, plans: ReadonlyArray<string>) {
  let next = 0
  for (let batch = 0; batch < batchesOfDeletion && next < plans.length; batch++) {
    const { events } = yield* purge(sql, plans.slice(next, next + plansAtOnce))
    if (events < eventsAtOnce) next += plansAtOnce
  }
})

const isFree =
  "not exists (select from plans p where p.session_id = s.id and p.state in ('queued', 'running', 'waiting'))"

/** Whether its webhooks were told all. What is dropped after a day is not pending any more. */
const isTold =
  "not exists (select from plans p join deliveries d on d.task_id = p.id where p.session_id = s.id and d.state = 'pending')"

/** Deletes one session. A plan that is created at the same time waits until this is done. */
export const deleteSession = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  session: SessionId,
  unless: "telling" | undefined
) {
  const mayGo = sql.literal(unless === "telling" ? `${isFree} and ${isTold}` : isFree)
  const plans = yield* sql.withTransaction(
    Effect.gen(function* () {
      const [locked] = yield* sql`select id from sessions where id = ${session} for update`
      if (locked === undefined) return []
      // Reads behind the lock, to see a plan that was created while this waited for it.
      const [free] = yield* sql`select true as free from sessions s where s.id = ${session} and ${mayGo}`
      return free === undefined ? undefined : yield* remove(sql, [session])
    })
  )
  if (plans === undefined) return false
  yield* Effect.ignore(purgeAll(sql, plans), { log: "Warn", message: "purge_failed" })
  return true
})

/**
 * Deletes a batch of expired idempotency keys, of effects that are kept no longer, or of tools that their callers have not met for long, and returns how many. Skips a locked one,
 * which a new plan is taking or meeting.
 */
const forget = (
  sql: SqlClient.SqlClient,
  now: string,
  table: "idempotency" | "known_tools" | "effects",
  column: "key" | "tool"
) =>
  sql`
delete from ${sql(table)} t using (
  select owner, ${sql(column)} from ${sql(table)} where expires_at <= ${now}
  order by expires_at limit ${keysAtOnce} for update skip locked
) expired where t.owner = expired.owner and t.${sql(column)} = expired.${sql(column)}
returning t.owner`.pipe(Effect.map((rows) => rows.length))

/** Deletes what is known of credentials and models that had no window for a week, by the clock of their windows, and were not used. Skips a locked row. */
const forgetCredentials = (sql: SqlClient.SqlClient) =>
  sql`
delete from credentials_state c using (
  select provider, credential, model from credentials_state
  where coalesce(greatest(until, last_used_at), '-infinity') < now() - interval '7 days'
  for update skip locked
) idle where c.provider = idle.provider and c.credential = idle.credential and c.model = idle.model`

/** Deletes leases that were over for an hour and that no plan needs: its replica has died, or left them. */
const forgetLeases = (sql: SqlClient.SqlClient) =>
  sql`
delete from leases where session_id = any(array(
  select l.session_id from leases l
  where l.expires_at < now() - interval '1 hour'
    and not exists (select from plans p where p.session_id = l.session_id and p.state in ('queued', 'running'))
  limit ${sessionsAtOnce * 10} for update skip locked
))`

/** Deletes a batch of firings that are kept no longer, and returns how many. */
const forgetFirings = (sql: SqlClient.SqlClient, now: string) =>
  sql`
delete from firings where ctid = any(array(
  select ctid from firings where fired_at < ${now}::timestamptz - ${firingsKeptFor} * interval '1 millisecond'
  order by fired_at limit ${keysAtOnce} for update skip locked
)) returning 1`.pipe(Effect.map((rows) => rows.length))

/**
 * Deletes a batch each of events that deletions left, of expired keys, of expired tools, of old firings, of leases and of expired sessions, and what was charged on days that are kept no longer. Skips locked sessions: they get
 * a plan or are written. Returns whether more may be left.
 */
export const sweep = (sql: SqlClient.SqlClient, now: string) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const [lock] = yield* sql<{ readonly is_ours: boolean }>`
select pg_try_advisory_xact_lock(hashtextextended('bowline/sweep', 0)) as is_ours`
      if (lock?.is_ours !== true) return false
      const isFolding = yield* foldCharges(sql, now)
      yield* forgetCredentials(sql)
      yield* forgetLeases(sql)
      const { plans } = yield* purge(sql)
      const keys = yield* forget(sql, now, "idempotency", "key")
      const effects = yield* forget(sql, now, "effects", "key")
      const firings = yield* forgetFirings(sql, now)
      const left = plans + keys + effects + firings + (yield* forget(sql, now, "known_tools", "tool"))
      const expired = yield* sql<{ readonly id: SessionId }>`
select s.id from sessions s where s.expires_at <= ${now} and ${sql.literal(isFree)} and ${sql.literal(isTold)}
order by s.expires_at limit ${sessionsAtOnce} for update skip locked`
      if (expired.length > 0)
        yield* remove(
          sql,
          expired.map(({ id }) => id)
        )
      return isFolding || left > 0 || expired.length > 0
    })
  )
