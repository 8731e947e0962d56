import { NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { PgClient } from "@effect/sql-pg"
import { Duration, Effect, Layer, Option } from "effect"
import { Reactivity } from "effect/reactivity"
import type { SqlClient } from "effect/sql"
import { deadlines, makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"
import { translateErrors } from "../internal/StorageErrors.ts"
import { notify, Publisher } from "../notice/Publisher.ts"
import { toldAgain, toldColumns, toldValues } from "./internal/ReplicaRow.ts"

interface Held {
  readonly session_id: SessionId
  readonly fence: number
}

interface Renewed {
  readonly held: ReadonlyArray<Held>
  readonly others: number
  readonly may_park: boolean
  readonly is_oldest: boolean
}

const make = (
  sql: SqlClient.SqlClient,
  renewing: SqlClient.SqlClient,
  withDeadline: WithDeadline,
  { channel, released }: Publisher["Service"]
): LeaseStore["Service"] => {
  const expiresIn = (ttl: Duration.Duration) =>
    sql`clock_timestamp() + ${Duration.toMillis(ttl)} * interval '1 millisecond'`
  // Behind a lease that is over, a take-over finds the plans of its session: see `TakeOverPlans`. A sweep deletes it later.
  const isLeft = sql`exists (select from plans p where p.session_id = l.session_id and p.state in ('queued', 'running'))`
  const end = sql`ended as (
  update leases l set replica = '', expires_at = '-infinity' from held h where l.session_id = h.session_id and ${isLeft}
), deleted as (
  delete from leases l using held h where l.session_id = h.session_id and not ${isLeft}
)`
  return {
    // Locks the session first, so that the fence does not grow while a batch is written. Of two that ask at once, the second one
    // waits for the lock, and then gets nothing: the fence that it has seen has grown, perhaps with a plan that it does not see.
    // Who waits says so first, in a statement of its own: a session is published as released when that is committed.
    acquire: (session, replica, ttl, isWaiting = false) =>
      withDeadline(
        Effect.gen(function* () {
          if (isWaiting) {
            yield* sql`
update replicas set waits_for = array_append(waits_for, ${session}) where id = ${replica} and not ${session} = any(waits_for)`
          }
          const [lease] = yield* sql<Held>`
with seen as materialized (
  select id, fence from sessions where id = ${session}
), free as (
  select s.id, s.fence from seen join sessions s on s.id = seen.id and s.fence = seen.fence
  where not exists (select from plans p where p.session_id = ${session} and p.state in ('running', 'waiting'))
  for no key update of s
), leased as (
  insert into leases as l (session_id, replica, fence, expires_at)
  select id, ${replica}, fence + 1, ${expiresIn(ttl)} from free
  on conflict (session_id) do update
    set replica = excluded.replica, fence = excluded.fence, expires_at = excluded.expires_at
    where l.expires_at <= now() or l.replica = excluded.replica
  returning session_id, fence
), got as (
  update replicas set waits_for = array_remove(waits_for, ${session})
  where id = ${replica} and ${session} = any(waits_for) and exists (select from leased)
)
update sessions s set fence = l.fence from leased l where s.id = l.session_id
returning l.session_id, l.fence`
          if (lease !== undefined) return Option.some(lease.fence)
          // The session may have been deleted while the statement waited for it.
          const [there] = yield* sql`select from sessions where id = ${session}`
          return there === undefined ? yield* new NotFound({ what: "session" }) : Option.none()
        })
      ),
    stopWaiting: (session, replica) =>
      withDeadline(
        sql`
update replicas set waits_for = array_remove(waits_for, ${session}) where id = ${replica} and ${session} = any(waits_for)`,
        deadlines.short
      ).pipe(Effect.asVoid),
    // Locks leases in the same order as a take-over by another replica, which may happen at the same time.
    renew: (replica, ttl) =>
      withDeadline(
        renewing<Renewed>`
with alive as (
  insert into replicas (id, expires_at, channel, ${sql.literal(toldColumns)}) values (${replica}, ${expiresIn(ttl)}, ${channel}, ${sql.literal(toldValues)})
  on conflict (id) do update set expires_at = excluded.expires_at, channel = excluded.channel, ${sql.literal(toldAgain)}
), mine as (
  select session_id from leases where replica = ${replica} order by session_id for update
), renewed as (
  update leases l set expires_at = ${expiresIn(ttl)} from mine where l.session_id = mine.session_id
  returning l.session_id, l.fence
), others as (
  select r.parks, (r.since, r.id) < (coalesce((select since from replicas where id = ${replica}), now()), ${replica}) as is_older
  from replicas r where r.id <> ${replica} and r.expires_at > now()
)
select coalesce((select json_agg(r) from renewed r), '[]') as held, count(*)::int as others,
  coalesce(bool_and(parks), true) as may_park, not coalesce(bool_or(is_older and parks), false) as is_oldest
from others`
      ).pipe(
        Effect.map(([row]) => ({
          held: new Map(row?.held.map(({ session_id, fence }) => [session_id, fence])),
          others: row?.others ?? 1,
          mayPark: row?.may_park ?? false,
          isOldest: row?.is_oldest ?? false
        }))
      ),
    // Tells nobody if this is the only replica.
    release: (session, fence) =>
      withDeadline(
        sql`
with held as materialized (
  select session_id, replica from leases where session_id = ${session} and fence = ${fence} for update
), ${end}
select from held l where exists (select from replicas r where r.id <> l.replica and r.expires_at > now())`,
        deadlines.short
      ).pipe(Effect.flatMap(({ length }) => (length === 0 ? Effect.void : released([session])))),
    // Locks in the same order as `renew`, which may run at the same time: leases by session, then the replica.
    leave: (replica) =>
      withDeadline(
        sql`
with held as materialized (
  select session_id from leases where replica = ${replica} order by session_id for update
), ${end}, gone as (
  delete from replicas where id = ${replica} and (select count(*) from held) >= 0
)
select ${notify(sql, { _tag: "PlansLeft" })}
where exists (select from replicas r where r.id <> ${replica} and r.expires_at > now())`,
        deadlines.short
      ).pipe(Effect.asVoid)
  }
}

/**
 * Leases in Postgres. In a shared database, renewals use a connection of their own: when all others wait for a lock or a slow
 * server, the replica still renews and keeps its plans.
 */
export const layer = ({ isShared }: { readonly isShared: boolean }) =>
  Layer.effect(
    LeaseStore,
    Effect.gen(function* () {
      const sql = yield* PgClient.PgClient
      const renewing = isShared ? yield* translateErrors(PgClient.make({ ...sql.config, maxConnections: 1 })) : sql
      // Behind the connection: it is closed when nothing uses it.
      return make(sql, renewing, yield* makeWithDeadline, yield* Publisher)
    })
  ).pipe(Layer.provide(Reactivity.layer))
