import type { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import type { SqlError } from "effect/sql"
import { translateErrors } from "../../internal/StorageErrors.ts"

const checkEvery = "10 seconds"

/** How much is written to the log, in bytes, before a checkpoint is due: one file of it. */
const maxLog = 16_777_216

/** How many dead rows, besides a fifth of the live ones, a table may have: the rule of autovacuum. */
const deadRows = 50

/** How long the vacuum of a table that is due waits for a second in which nobody uses the database. */
const maxWait = "1 minute"

/**
 * Does what a Postgres server does in the background, and the embedded one, which is a single process, does not: checkpoints,
 * which let it reuse the write-ahead log, and vacuums, which let it reuse the space of dead rows. `isQuiet` waits for a second
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

  const vacuum = Effect.gen(function* () {
    const due = yield* sql<{ readonly table: string; readonly dead: number }>`
select relname as table, n_dead_tup::float8 as dead from pg_stat_user_tables
where n_dead_tup > ${deadRows} + n_live_tup / 5 order by n_dead_tup desc`
    for (const { table, dead } of due) {
      yield* isQuiet.pipe(Effect.repeat({ until: (isQuiet) => isQuiet }), Effect.timeoutOption(maxWait))
      yield* sql`vacuum ${sql(table)}`
      yield* Effect.logDebug("table_vacuumed", { table, dead })
    }
  })

  const regularly = (task: Effect.Effect<void, SqlError.SqlError>) =>
    translateErrors(task).pipe(
      Effect.catchCause((cause) => Effect.logWarning("database_maintenance_failed", cause)),
      Effect.delay(checkEvery),
      Effect.forever
    )

  // Two fibers: a busy database waits for its vacuums, and needs its checkpoints.
  return Effect.all([regularly(checkpoint), regularly(vacuum)], { concurrency: "unbounded", discard: true })
}
