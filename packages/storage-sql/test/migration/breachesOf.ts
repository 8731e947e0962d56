import { Data, Effect, Predicate } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Step } from "../../src/migration/MigrationStep.ts"

interface Table {
  readonly name: string
  readonly file: number
  readonly scans: number
  readonly changes: number
  /** Whether this transaction keeps others from writing it. */
  readonly isClosed: boolean
}

const tables = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<Table>`
select c.relname as name, c.relfilenode::int as file, pg_stat_get_xact_numscans(c.oid)::int as scans,
  (pg_stat_get_xact_tuples_updated(c.oid) + pg_stat_get_xact_tuples_deleted(c.oid))::int as changes,
  exists (
    select from pg_locks l where l.pid = pg_backend_pid() and l.relation = c.oid
      and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
  ) as "isClosed"
from pg_class c where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace order by c.relname`
)

interface Column {
  readonly name: string
  readonly type: string
  /** Whether an insert that does not know the column fails. */
  readonly isNeeded: boolean
}

const columns = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<Column>`
select table_name || '.' || column_name as name, data_type as type,
  is_nullable = 'NO' and column_default is null and is_identity = 'NO' as "isNeeded"
from information_schema.columns where table_schema = 'public' order by 1`
)

/** Rolls back what it was found with. */
class Found extends Data.TaggedError("Found")<{ readonly breaches: ReadonlyArray<string> }> {}

const attempt = (statement: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.result(sql.withTransaction(sql.unsafe(statement))))

/** The names of the tables. */
export const tableNames = Effect.map(tables, (found) => new Set(found.map(({ name }) => name)))

/** What a step does that the version before would suffer from, which uses its tables meanwhile. */
export const breachesOf = (step: Step, used: ReadonlySet<string>) =>
  Effect.gen(function* (): Effect.fn.Return<ReadonlyArray<string>, SqlError.SqlError, SqlClient.SqlClient> {
    if (!Predicate.isString(step)) return []
    if (/^\s*(begin|commit|set|reset)\b|_timeout/i.test(step)) return ["sets what all steps have"]
    const [tablesBefore, columnsBefore] = [(yield* tables).filter(({ name }) => used.has(name)), yield* columns]
    const first = yield* attempt(step)
    if (first._tag === "Failure")
      return ["fails in a transaction: an index of a table with rows is a step of its own kind"]
    const [tablesAfter, columnsAfter] = [yield* tables, yield* columns]
    const second = yield* attempt(step)

    const after = new Map(tablesAfter.map((table) => [table.name, table]))
    const changed = tablesBefore.flatMap((before) => {
      const table = after.get(before.name)
      return table === undefined ? [] : [{ before, table }]
    })
    const closed = changed.filter(({ table }) => table.isClosed)
    const known = new Map(columnsAfter.map((column) => [column.name, column]))
    const isOld = (column: Column) => columnsBefore.some(({ name }) => name === column.name)
    const isUsed = ({ name }: Column) => used.has(name.slice(0, name.indexOf(".")))
    return [
      ...(closed.length > 1 ? [`locks ${closed.map(({ table }) => table.name).join(" and ")} at once`] : []),
      ...changed.filter(({ before, table }) => before.file !== table.file).map(({ table }) => `rewrites ${table.name}`),
      ...closed
        .filter(({ before, table }) => before.file === table.file && table.scans > before.scans)
        .map(({ table }) => `reads ${table.name}, which nobody may write meanwhile`),
      ...changed
        .filter(({ before, table }) => table.changes > before.changes)
        .map(({ table }) => `changes rows of ${table.name}: that is a backfill`),
      ...columnsBefore
        .filter(({ name, type }) => known.get(name)?.type !== type)
        .map(({ name }) => `takes ${name} away as the version before knows it`),
      ...columnsAfter
        .filter((column) => column.isNeeded && isUsed(column) && !isOld(column))
        .map(({ name }) => `needs ${name}, which the version before does not write`),
      ...(second._tag === "Failure" ? ["fails when it is run again"] : [])
    ]
  }).pipe(
    Effect.flatMap((breaches) => Effect.fail(new Found({ breaches }))),
    (look) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(look)),
    Effect.catchTag("Found", ({ breaches }) => Effect.succeed(breaches))
  )
