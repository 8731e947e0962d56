import { DateTime, Duration, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { notEnded } from "../SealedEvents.ts"

const week = Duration.toMillis(Duration.weeks(1))

/** 1970-01-01 was a Thursday: weeks begin on Mondays, in UTC. */
const firstMonday = Duration.toMillis(Duration.days(4))

const beginOf = (millis: number): number => Math.floor((millis - firstMonday) / week) * week + firstMonday

const dayOf = (millis: number): string => DateTime.formatIsoDateUtc(DateTime.makeUnsafe(millis))

const prefix = "sealed_"

/** The table with the plans that ended in a week, and from when to when that is; of null the one with what is sealed of plans that are not over: no sweep drops it. */
const tableOf = (monday: number | null) =>
  monday === null
    ? { table: `${prefix}open`, range: `from ('${notEnded}') to (maxvalue)` }
    : {
        table: prefix + dayOf(monday).replaceAll("-", ""),
        range: `from ('${dayOf(monday)} 00:00Z') to ('${dayOf(monday + week)} 00:00Z')`
      }

/** When the week of the table is over, in milliseconds since 1970; NaN if it has none. */
const endOf = (table: string): number => {
  const [, year, month, day] = /_(\d{4})(\d\d)(\d\d)$/.exec(table) ?? []
  return Date.parse(`${year}-${month}-${day}T00:00:00Z`) + week
}

/**
 * Makes the tables for plans that ended at these times, or have not ended (null), where they are missing. A new table is attached when it is complete: that waits for nobody
 * who reads or writes the others.
 */
export const makeWeeks = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, ends: ReadonlyArray<Date | null>) {
  for (const monday of new Set(ends.map((end) => end && beginOf(end.getTime())))) {
    const { range, table } = tableOf(monday)
    const [found] = yield* sql<{ readonly exists: boolean }>`select to_regclass(${table}) is not null as exists`
    if (found?.exists === true) continue
    yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`select pg_advisory_xact_lock(hashtextextended('bowline/sealing', 0))`
        // `to_regclass` may remember that there was none before the lock.
        yield* sql.unsafe(`
do $$ begin
  if not exists (select from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'sealed'::regclass and c.relname = '${table}') then
    create table if not exists ${table} (like sealed including all);
    alter table sealed attach partition ${table} for values ${range};
  end if;
end $$`)
      })
    )
  }
})

/** A week that others use at this moment goes with the next sweep: nobody waits behind the drop for longer than this. */
const lockTimeout = "100ms"

/** Drops the tables of the weeks that were over before this time, in milliseconds since 1970. */
export const dropWeeks = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, before: number) {
  const tables = yield* sql<{ readonly name: string }>`
select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = to_regclass('sealed') order by c.relname`
  for (const { name } of tables) {
    if (!(endOf(name) <= before)) continue
    yield* Effect.andThen(
      sql.unsafe(`set local lock_timeout = '${lockTimeout}'`),
      sql`drop table if exists ${sql(name)}`
    ).pipe(
      sql.withTransaction,
      Effect.tap(Effect.logInfo("events_dropped", { table: name })),
      Effect.ignore({ log: "Debug", message: "events_not_dropped" })
    )
  }
})
