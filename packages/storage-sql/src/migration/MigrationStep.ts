import { Data, Duration, Effect, Predicate, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { SqlError } from "effect/sql/SqlError"

/**
 * One statement, which is a transaction by itself. A start that is killed is followed by one that runs all steps of the migration again:
 * a step that was made already changes nothing. CONTRIBUTING has the rules, and a test refuses what breaks them.
 */
export type Step = string | Index | Backfill

/** An index of a table that has rows. `on` is what follows its name: the table and the columns, perhaps a condition. */
export interface Index {
  readonly index: string
  readonly on: string
}

/** Changes the rows of a table with a text `id` for which `where` holds. */
export interface Backfill {
  readonly backfill: string
  readonly set: string
  readonly where: string
}

export const isIndex = (step: Step): step is Index => Predicate.hasProperty(step, "index")

/** For how long one step tries to get its locks. */
const maxWait = Duration.minutes(10)

/** Others hold for minutes what a migration has to lock. What it has done so far stays: the next start continues it. */
export class MigrationBlocked extends Data.TaggedError("MigrationBlocked")<{
  readonly migration: string
  /** The processes of the server with the oldest transactions. */
  readonly pids: ReadonlyArray<number>
}> {
  override get message(): string {
    const who = `The oldest transactions are those of the server's processes ${this.pids.join(", ")}`
    return `The migration ${this.migration} got no lock within ${Duration.format(maxWait)}. ${who}`
  }
}

/** Whoever comes behind a statement that waits for a table waits, too. It is less than Postgres waits before it looks for a deadlock. */
const lockTimeout = "100ms"

/** Nobody waits behind an index that is built beside them, and it waits for the ends of all transactions. */
const indexLockTimeout = `${Duration.toMillis(maxWait)}ms`

const again = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("5 seconds")]).pipe(
  Schedule.upTo({ duration: maxWait })
)

/** How many rows a backfill looks at in one statement: a commit that writes one of them waits for its end. */
const rowsAtOnce = 1_000

const isBlocked = (error: unknown): boolean =>
  error instanceof SqlError && (error.reason._tag === "LockTimeoutError" || error.reason._tag === "DeadlockError")

/** Whom a step may wait for. It is not said what they ask: that may show content. */
const oldestTransactions = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<{ readonly pid: number; readonly application: string; readonly seconds: number }>`
select pid, application_name as application, extract(epoch from clock_timestamp() - xact_start)::int as seconds
from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
order by xact_start limit 3`
)

/** Tries again what a lock holds up. */
const persist = <A, R>(migration: string, effect: Effect.Effect<A, SqlError, R>) =>
  effect.pipe(
    Effect.tapError((error) =>
      Effect.when(
        Effect.flatMap(oldestTransactions, (transactions) =>
          Effect.logInfo("migration_waits", { migration, transactions })
        ),
        Effect.sync(() => isBlocked(error))
      )
    ),
    Effect.retry({ schedule: again, while: isBlocked }),
    Effect.catchIf(isBlocked, () =>
      Effect.flatMap(oldestTransactions, (found) =>
        Effect.fail(new MigrationBlocked({ migration, pids: found.map(({ pid }) => pid) }))
      )
    )
  )

/** A build that was interrupted leaves an index that no query uses, and that every write pays for. */
const build = Effect.fnUntraced(function* ({ index, on }: Index) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly is_valid: boolean }>`
select indisvalid as is_valid from pg_index where indexrelid = to_regclass(${index})`
  if (found?.is_valid === true) return
  if (found !== undefined) yield* sql.unsafe(`drop index concurrently ${index}`)
  yield* sql.unsafe(`create index concurrently ${index} on ${on}`)
})

/** Changes the next rows, and returns the id of the last one that it has looked at. */
const fillNext = Effect.fnUntraced(function* ({ backfill, set, where }: Backfill, after: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql.unsafe<{ readonly last: string | null }>(
    `with batch as materialized (
  select id from ${backfill} where id > $1 order by id limit ${rowsAtOnce}
), filled as (
  update ${backfill} t set ${set} from batch where t.id = batch.id and ${where}
)
select max(id) as last from batch`,
    [after]
  )
  return row?.last ?? null
})

/** Runs the steps of a migration, on a connection of its own. */
export const runSteps = Effect.fnUntraced(function* (migration: string, steps: ReadonlyArray<Step>) {
  const sql = yield* SqlClient.SqlClient
  for (const step of steps) {
    yield* sql.unsafe(`set lock_timeout = '${isIndex(step) ? indexLockTimeout : lockTimeout}'`)
    if (Predicate.isString(step)) yield* persist(migration, sql.unsafe(step))
    else if (isIndex(step)) yield* persist(migration, build(step))
    else {
      let last: string | null = ""
      while (last !== null) last = yield* persist(migration, fillNext(step, last))
    }
  }
})
