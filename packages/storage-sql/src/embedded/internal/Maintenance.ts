import type { PgClient } from "@effect/sql-pg"
import { Duration, Effect } from "effect"
import type { SqlError } from "effect/sql"
import { translateErrors } from "../../internal/StorageErrors.ts"

const checkEvery = "10 seconds"

/** How much is written to the log, in bytes, before a checkpoint is due: one file of it. */
const maxLog = 16_777_216

/** How many dead rows, besides a fifth of the live ones, a table may have: the rule of autovacuum. */
const deadRows = 50

/** A smaller table is read as fast without statistics, in bytes. */
const smallTable = 1_048_576

/** How long the vacuum or the analysis of a table that is due waits for a second in which nobody uses the database. */
const maxWait = "1 minute"

/**
 * Does what a Postgres server does in the background, and the embedded one, which is a single process, does not: checkpoints,
 * which let it reuse the write-ahead log, vacuums, which let it reuse the space of dead rows, and statistics, which tell it by which
 * index it finds a few of many rows. `isQuiet` waits for a second
 * and says whether nobody has used the database meanwhile. Runs until it is interrupted.
 */
export const maintain = (sql: PgClient.PgClient, isQuiet: Effect.Effect<boolean>) => {
  const checkpoint = Effect.gen(function* () {
    const [row] = yield* sql<{ readonly log: number }>`
select (pg_current_wal_insert_lsn() - redo_lsn)::float8 as log from pg_control_checkpoint()`
    if (row === undefined || row.log < maxLog) return
    yield* sql`checkpoint`
    yield* Effect.logDebug("database_checkpointed", { bytes: row.log })
  })

  const quiet = isQuiet.pipe(Effect.repeat({ until: (isQuiet) => isQuiet }), Effect.timeoutOption(maxWait))

  const vacuum = Effect.gen(function* () {
    const due = yield* sql<{ readonly table: string; readonly dead: number }>`
select relname as table, n_dead_tup::float8 as dead from pg_stat_user_tables
where n_dead_tup > ${deadRows} + n_live_tup / 5 order by n_dead_tup desc`
    for (const { table, dead } of due) {
      yield* quiet
      yield* sql`vacuum ${sql(table)}`
      yield* Effect.logDebug("table_vacuumed", { table, dead })
    }
  })

  /** A tenth of the rows has changed, as for autovacuum; or nothing is known of it: a process that was killed has kept no counts. */
  const analyze = Effect.gen(function* () {
    const due = yield* sql<{ readonly table: string }>`
select relname as table from pg_stat_user_tables
where pg_relation_size(relid) > ${smallTable} and (last_analyze is null or n_mod_since_analyze > n_live_tup / 10)`
    for (const { table } of due) {
      yield* quiet
      const [took] = yield* Effect.timed(sql`analyze ${sql(table)}`)
      yield* Effect.logDebug("table_analyzed", { table, took_ms: Duration.toMillis(took) })
    }
  })

  const regularly = (task: Effect.Effect<void, SqlError.SqlError>) =>
    translateErrors(task).pipe(
      Effect.catchCause((cause) => Effect.logWarning("database_maintenance_failed", cause)),
      Effect.delay(checkEvery),
      Effect.forever
    )

  // Two fibers: a busy database waits for its vacuums, and needs its checkpoints.
  return Effect.all([regularly(checkpoint), regularly(Effect.andThen(vacuum, analyze))], {
    concurrency: "unbounded",
    discard: true
  })
}
