import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { translateErrors } from "../internal/StorageErrors.ts"
import { accountGrants, callerTokens, lentNews } from "./internal/AccountTables.ts"
import * as Changes from "./internal/Changes.ts"
import { filePages, filePurposes, files, outsideChunks, sessionFiles } from "./internal/FileTables.ts"
import { initial } from "./internal/Initial.ts"
import { schedules } from "./internal/ScheduleTables.ts"
import { runSteps, type Step } from "./MigrationStep.ts"

/** By number and name. A migration never changes: a database that has it does not run it again. */
export const migrations: Readonly<Record<string, ReadonlyArray<Step>>> = {
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
  "0021_credential_keys": Changes.credentialKeys,
  "0022_gists": Changes.gists,
  "0023_overview": Changes.overview,
  "0024_filters": Changes.filters,
  "0025_inboxes": Changes.inboxes,
  "0026_waits": Changes.waits,
  "0027_parking": Changes.parking,
  "0028_recent_sessions": Changes.recentSessions,
  "0029_calls": Changes.calls,
  "0030_marks": Changes.marks,
  "0031_sealed": Changes.sealed,
  "0032_call_times": Changes.callTimes,
  "0033_entry_tools": Changes.entryTools,
  "0034_wait_ends": Changes.waitEnds,
  "0035_channels": Changes.channels,
  "0036_take_overs": Changes.takeOvers,
  "0037_effects": Changes.effects,
  "0038_webhooks": Changes.webhooks,
  "0039_effect_lists": Changes.effectLists,
  "0040_caller_keys": Changes.callerKeys,
  "0041_feedback": Changes.feedback,
  "0042_charges": Changes.charges,
  "0043_files": files,
  "0044_schedules": schedules,
  "0045_records": Changes.records,
  "0046_session_files": sessionFiles,
  "0047_file_purposes": filePurposes,
  "0048_outside_chunks": outsideChunks,
  "0049_caller_tokens": callerTokens,
  "0050_sealed_waits": Changes.sealedWaits,
  "0051_file_pages": filePages,
  "0052_session_metadata": Changes.sessionMetadata,
  "0053_account_grants": accountGrants,
  "0054_lent_news": lentNews,
  "0055_waits_by_age": Changes.waitsByAge,
  "0056_read_codecs": Changes.readCodecs
}

const table = "bowline_migrations"

const compareWith = Effect.fnUntraced(function* (known: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly exists: boolean }>`select to_regclass(${table}) is not null as exists`
  const done =
    found?.exists === true
      ? yield* sql<{ readonly name: string }>`
select lpad(migration_id::text, 4, '0') || '_' || name as name from ${sql(table)}`
      : []
  const names = new Set(done.map(({ name }) => name))
  return {
    done: done.length,
    pending: known.filter((name) => !names.has(name)),
    unknown: Array.from(names).filter((name) => !known.includes(name))
  }
})

/** The migrations that a database lacks, and how many it has that this version does not know. It changes nothing. */
export const compare = compareWith(Object.keys(migrations))

const prepare = `
create table if not exists ${table} (
  migration_id integer primary key,
  created_at timestamp with time zone not null default now(),
  name text not null
)`

/** A start that hangs says at what. */
const tellWait = Effect.andThen(Effect.delay(Effect.logInfo("migrations_wait"), "10 seconds"), Effect.never)

/**
 * Locks the migrations until the scope ends. Whoever waits for the lock asks for it again and again: a statement that waits has a
 * snapshot, and an index that is built beside others waits for the ends of all snapshots.
 */
const lock = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const key = sql.literal("hashtextextended('bowline/migrating', 0)")
  yield* Effect.acquireRelease(
    Effect.repeat(sql<{ readonly is_ours: boolean }>`select pg_try_advisory_lock(${key}) as is_ours`, {
      until: ([row]) => row?.is_ours === true,
      schedule: Schedule.spaced("100 millis")
    }),
    // The connection goes back to the pool. If it is gone, so is its lock.
    () => Effect.ignore(Effect.andThen(sql`reset lock_timeout`, sql`select pg_advisory_unlock(${key})`)),
    { interruptible: true }
  )
})

const migrate = Effect.fnUntraced(function* (all: typeof migrations) {
  const sql = yield* SqlClient.SqlClient
  yield* lock
  yield* sql.unsafe(prepare)
  for (const name of (yield* compareWith(Object.keys(all))).pending) {
    yield* runSteps(name, all[name] ?? [])
    yield* sql`insert into ${sql(table)} (migration_id, name) values (${Number.parseInt(name)}, ${name.slice(5)})`
  }
})

/** `run`, of some of the migrations. */
export const runOf = Effect.fnUntraced(function* (all: typeof migrations) {
  const sql = yield* SqlClient.SqlClient
  const migrating = Effect.gen(function* () {
    if ((yield* compareWith(Object.keys(all))).pending.length === 0) return
    const connection = yield* sql.reserve
    yield* Effect.provideService(migrate(all), sql.transactionService, [connection, 0])
  })
  yield* Effect.raceFirst(translateErrors(Effect.scoped(migrating)), tellWait)
})

/**
 * Brings the tables up to date. When several processes start at once, one migrates and the others wait for it. Each step is a
 * transaction by itself: processes of the version before go on meanwhile, and the next start continues what was interrupted.
 */
export const run = runOf(migrations)
