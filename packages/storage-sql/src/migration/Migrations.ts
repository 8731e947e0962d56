import { Rejected, StorageError } from "@bowline/domain/storage/StorageError"
import { Effect, Record } from "effect"
import { Migrator, SqlClient } from "effect/sql"
import { SqlError } from "effect/sql/SqlError"
import { translateErrors } from "../internal/StorageErrors.ts"
import * as Changes from "./internal/Changes.ts"
import { initial } from "./internal/Initial.ts"

const execute = Effect.fnUntraced(function* (statements: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  for (const statement of statements) yield* sql.unsafe(statement)
})

/** By number and name. A migration never changes: a database that has it does not run it again. */
export const migrations = Record.map(
  {
    "0001_initial": initial,
    "0002_credentials": Changes.credentials,
    "0003_peers": Changes.peers,
    "0004_sessions": Changes.sessions,
    "0005_idempotency": Changes.idempotency,
    "0006_recovery": Changes.recovery,
    "0007_questions": Changes.questions,
    "0008_approvals": Changes.approvals,
    "0009_spendings": Changes.spendings,
    "0010_known_tools": Changes.knownTools,
    "0011_rate_limits": Changes.rateLimits,
    "0012_presets": Changes.presets,
    "0013_tasks": Changes.tasks,
    "0014_echoes": Changes.echoes,
    "0015_session_ttl": Changes.sessionTtl,
    "0016_push_targets": Changes.pushTargets,
    "0017_plan_facts": Changes.planFacts,
    "0018_logins": Changes.logins,
    "0019_cancelled_tasks": Changes.cancelledTasks,
    "0020_plan_ends": Changes.planEnds,
    "0021_credential_keys": Changes.credentialKeys
  },
  execute
)

const table = "bowline_migrations"

const migrate = Migrator.make({})({
  table,
  loader: Migrator.fromRecord(migrations)
}).pipe(
  Effect.catchTag("MigrationError", (error) =>
    Effect.fail(
      error.cause instanceof SqlError ? error.cause : new StorageError({ reason: new Rejected({ cause: error }) })
    )
  )
)

/** The migrations that a database lacks, and how many it has that this version does not know. It changes nothing. */
export const compare = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly exists: boolean }>`select to_regclass(${table}) is not null as exists`
  const done =
    found?.exists === true
      ? yield* sql<{ readonly name: string }>`
select lpad(migration_id::text, 4, '0') || '_' || name as name from ${sql(table)}`
      : []
  const names = new Set(done.map(({ name }) => name))
  const known = Object.keys(migrations)
  return {
    done: done.length,
    pending: known.filter((name) => !names.has(name)),
    unknown: Array.from(names).filter((name) => !known.includes(name))
  }
})

/** The migrator would make this table, too, but if the user may not it reports what its next statement got: no reason. */
const prepare = `
do $$ begin
  if to_regclass('${table}') is null then
    create table ${table} (
      migration_id integer primary key,
      created_at timestamp with time zone not null default now(),
      name text not null
    );
  end if;
end $$`

/** A start that hangs says at what. */
const tellWait = Effect.andThen(Effect.delay(Effect.logInfo("migrations_wait"), "10 seconds"), Effect.never)

/** Brings the tables up to date. When several processes start at once, one migrates and the others wait for it. */
export const run = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const lock = sql`select pg_advisory_xact_lock(hashtextextended('bowline/migrations', 0))`
  const migrated = sql.withTransaction(Effect.andThen(Effect.andThen(lock, sql.unsafe(prepare)), migrate))
  yield* Effect.raceFirst(translateErrors(migrated), tellWait)
})
