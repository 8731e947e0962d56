import { CallerName } from "@bowline/domain/caller/CallerName"
import { type AbandonedPlan, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { PgClient } from "@effect/sql-pg"
import { assert, it, layer } from "@effect/vitest"
import { Context, Deferred, Duration, Effect, Exit, Fiber, Layer, Logger } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import { inspect } from "node:util"
import { TestClock } from "effect/testing"
import * as Migrations from "../../src/migration/Migrations.ts"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import * as Publisher from "../../src/notice/Publisher.ts"
import * as SqlPlanStore from "../../src/plan/SqlPlanStore.ts"
import { cutWire } from "../postgres/cutWire.ts"
import { freshDatabase } from "../postgres/freshDatabase.ts"
import { sessionTtl } from "../stores.ts"
import { written } from "./written.ts"

it.live("makes the tables once, however many processes start at once, and however often", () =>
  Effect.gen(function* () {
    const url = yield* freshDatabase
    const process = PgClient.layer({ url, maxConnections: 2 })
    yield* Effect.forEach(Array.from({ length: 4 }), () => Migrations.run.pipe(Effect.provide(Layer.fresh(process))), {
      concurrency: "unbounded"
    })
    yield* Effect.gen(function* () {
      yield* Migrations.run
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(yield* sql`select migration_id, name from bowline_migrations order by migration_id`, [
        { migration_id: 1, name: "initial" },
        { migration_id: 2, name: "credentials" },
        { migration_id: 3, name: "peers" },
        { migration_id: 4, name: "sessions" },
        { migration_id: 5, name: "idempotency" },
        { migration_id: 6, name: "recovery" },
        { migration_id: 7, name: "questions" },
        { migration_id: 8, name: "approvals" },
        { migration_id: 9, name: "spendings" },
        { migration_id: 10, name: "known_tools" },
        { migration_id: 11, name: "rate_limits" },
        { migration_id: 12, name: "presets" },
        { migration_id: 13, name: "tasks" },
        { migration_id: 14, name: "echoes" },
        { migration_id: 15, name: "session_ttl" },
        { migration_id: 16, name: "push_targets" },
        { migration_id: 17, name: "plan_facts" },
        { migration_id: 18, name: "logins" },
        { migration_id: 19, name: "cancelled_tasks" },
        { migration_id: 20, name: "plan_ends" },
        { migration_id: 21, name: "credential_keys" },
        { migration_id: 22, name: "gists" },
        { migration_id: 23, name: "overview" },
        { migration_id: 24, name: "filters" },
        { migration_id: 25, name: "inboxes" },
        { migration_id: 26, name: "waits" },
        { migration_id: 27, name: "parking" },
        { migration_id: 28, name: "recent_sessions" },
        { migration_id: 29, name: "calls" },
        { migration_id: 30, name: "marks" },
        { migration_id: 31, name: "sealed" },
        { migration_id: 32, name: "call_times" },
        { migration_id: 33, name: "entry_tools" },
        { migration_id: 34, name: "wait_ends" },
        { migration_id: 35, name: "channels" },
        { migration_id: 36, name: "take_overs" },
        { migration_id: 37, name: "effects" },
        { migration_id: 38, name: "webhooks" },
        { migration_id: 39, name: "effect_lists" },
        { migration_id: 40, name: "caller_keys" },
        { migration_id: 41, name: "feedback" },
        { migration_id: 42, name: "charges" },
        { migration_id: 43, name: "files" },
        { migration_id: 44, name: "schedules" },
        { migration_id: 45, name: "records" },
        { migration_id: 46, name: "session_files" },
        { migration_id: 47, name: "file_purposes" },
        { migration_id: 48, name: "outside_chunks" },
        { migration_id: 49, name: "caller_tokens" },
        { migration_id: 50, name: "sealed_waits" },
        { migration_id: 51, name: "file_pages" },
        { migration_id: 52, name: "session_metadata" },
        { migration_id: 53, name: "account_grants" },
        { migration_id: 54, name: "lent_news" },
        { migration_id: 55, name: "waits_by_age" },
        { migration_id: 56, name: "read_codecs" }
      ])
      assert.deepStrictEqual(yield* sql`select count(*)::int as plans from plans`, [{ plans: 0 }])
      const tables = yield* sql<{ readonly name: string }>`
select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'bowline_migrations'`
      const reference = readFileSync(new URL("../../../../docs/reference/storage.md", import.meta.url), "utf8")
      assert.deepStrictEqual(
        tables.map(({ name }) => name).filter((name) => !reference.includes(`\n| \`${name}\` |`)),
        [],
        "each table has its row in the reference"
      )
    }).pipe(Effect.provide(process))
  }).pipe(Effect.scoped)
)

it.effect("says after 10 s that it waits for another process, and goes on when that one has migrated", () =>
  Effect.gen(function* () {
    const url = yield* freshDatabase
    const process = Layer.fresh(PgClient.layer({ url, maxConnections: 2 }))
    const said: Array<unknown> = []
    const logger = Logger.layer([Logger.make(({ message }) => void said.push(message))])
    const isLocked = yield* Deferred.make<void>()
    const isDone = yield* Deferred.make<void>()
    const other = Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const locked = sql`select pg_advisory_xact_lock(hashtextextended('bowline/migrating', 0))`
      const rest = Effect.andThen(Deferred.succeed(isLocked, undefined), Deferred.await(isDone))
      yield* sql.withTransaction(Effect.andThen(locked, rest))
    })
    yield* Effect.forkScoped(Effect.provide(other, process))
    yield* Deferred.await(isLocked)
    const isConnected = yield* Deferred.make<void>()
    const running = yield* SqlClient.SqlClient.pipe(
      Effect.flatMap((sql) => sql`select 1`),
      Effect.andThen(Deferred.succeed(isConnected, undefined)),
      Effect.andThen(Migrations.run),
      Effect.provide([process, logger]),
      Effect.forkChild
    )
    // The clock also tells how long a connection takes.
    yield* Deferred.await(isConnected)
    yield* Effect.repeat(TestClock.adjust("1 second"), { until: () => said.length > 0 })
    assert.deepStrictEqual(said, [["migrations_wait"]])
    yield* Deferred.succeed(isDone, undefined)
    const passing = Effect.forever(Effect.andThen(Effect.yieldNow, TestClock.adjust("100 millis")))
    yield* Effect.raceFirst(Fiber.join(running), passing)
  }).pipe(Effect.scoped)
)

/** A database of the version that had so many migrations, for processes that each have connections of their own. */
const databaseOf = Effect.fnUntraced(function* (version: number) {
  const url = yield* freshDatabase
  const process = PgClient.layer({ url, maxConnections: 3 })
  const migrations = Object.fromEntries(Object.entries(Migrations.migrations).slice(0, version))
  yield* Effect.provide(Migrations.runOf(migrations), Layer.fresh(process))
  return process
})

/** Goes on when somebody waits for a lock on the table. */
const awaitWaiter = (table: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* Effect.repeat(sql`select from pg_locks where relation = ${table}::regclass and not granted`, {
      until: (rows) => rows.length > 0
    })
  })

it.live("lets a plan write what it has locked the session for, between any two steps", () =>
  Effect.gen(function* () {
    const process = yield* databaseOf(13)
    yield* Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (const statement of written) yield* sql.unsafe(statement)
      const migrating = yield* Effect.provide(Migrations.run, Layer.fresh(process)).pipe(
        Effect.forkChild({ startImmediately: true })
      )
      yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`select from sessions for no key update`
          // Meanwhile the columns of `plans` are there.
          yield* awaitWaiter("sessions")
          yield* sql`update plans set steps = steps + 1`
        })
      )
      yield* Fiber.join(migrating)
      assert.deepStrictEqual(yield* sql`select ttl_ms from sessions`, [{ ttl_ms: null }])
    }).pipe(Effect.provide(process))
  }).pipe(Effect.scoped)
)

it.effect("ends after 10 minutes without a lock, says who may have it, and is continued by the next start", () =>
  Effect.gen(function* () {
    const process = yield* databaseOf(14)
    yield* Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const ended = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`lock table sessions in access share mode`
          const [holder] = yield* sql<{ readonly pid: number }>`select pg_backend_pid() as pid`
          const running = yield* Effect.provide(Effect.flip(Migrations.run), Layer.fresh(process)).pipe(
            Effect.forkChild({ startImmediately: true })
          )
          // The clock also tells how long a connection takes: time passes when there is one.
          yield* awaitWaiter("sessions")
          const passing = Effect.forever(Effect.andThen(sql`select 1`, TestClock.adjust("1 minute")))
          return { holder, error: yield* Effect.raceFirst(Fiber.join(running), passing) }
        })
      )
      assert.strictEqual(ended.error._tag, "MigrationBlocked")
      assert.include(ended.error.message, "The migration 0015_session_ttl got no lock within 10m")
      assert.match(ended.error.message, new RegExp(`\\b${ended.holder?.pid}\\b`))
      yield* Effect.provide(Migrations.run, Layer.fresh(process))
      assert.deepStrictEqual((yield* Migrations.compare).pending, [])
    }).pipe(Effect.provide(process))
  }).pipe(Effect.scoped)
)

it.live("builds an index anew that an interrupted build has left", () =>
  Effect.gen(function* () {
    const process = yield* databaseOf(16)
    yield* Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (const statement of written) yield* sql.unsafe(statement)
      yield* Effect.flip(sql`create unique index concurrently plans_newest_by_error on plans (session_id)`)
      const index = sql`
select indisvalid as valid, indisunique as unique, pg_get_indexdef(indexrelid) like '%(owner, error_code, ordinal)%' as whole
from pg_index where indexrelid = 'plans_newest_by_error'::regclass`
      assert.deepStrictEqual(yield* index, [{ valid: false, unique: true, whole: false }])
      yield* Migrations.run
      assert.deepStrictEqual(yield* index, [{ valid: true, unique: false, whole: true }])
    }).pipe(Effect.provide(process))
  }).pipe(Effect.scoped)
)

/** All columns and indexes, and what is in the rows. */
const schema = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return {
    columns: yield* sql`
select table_name, column_name, data_type, is_nullable, column_default from information_schema.columns
where table_schema = 'public' order by 1, 2`,
    indexes: yield* sql`
select pg_get_indexdef(indexrelid) as index, indisvalid from pg_index join pg_class c on c.oid = indexrelid
where c.relnamespace = 'public'::regnamespace order by 1`,
    plans: yield* sql`select id, error_code from plans order by 1`,
    done: yield* sql`select migration_id, name from bowline_migrations order by 1`
  }
})

it.live("is continued by the next start, wherever its connection broke", () =>
  Effect.gen(function* () {
    const former = Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* Migrations.runOf(Object.fromEntries(Object.entries(Migrations.migrations).slice(0, 6)))
      for (const statement of written) yield* sql.unsafe(statement)
    })
    const whole = yield* Effect.andThen(former, Effect.andThen(Migrations.run, schema)).pipe(
      Effect.provide(Layer.fresh(PgClient.layer({ url: yield* freshDatabase, maxConnections: 1 })))
    )

    const url = yield* freshDatabase
    const direct = PgClient.layer({ url, maxConnections: 1 })
    yield* Effect.provide(former, Layer.fresh(direct))
    const wire = yield* cutWire(url)
    const start = Effect.suspend(() =>
      Effect.provide(Migrations.run, Layer.fresh(PgClient.layer({ url: wire.url, maxConnections: 1 })))
    )
    let breaks = 0
    for (let isDone = false; !isDone;) {
      breaks++
      wire.breakAt({ statement: breaks, when: breaks % 2 === 0 ? "before" : "behind" })
      isDone = Exit.isSuccess(yield* Effect.exit(start))
    }
    assert.isAbove(breaks, 10)
    assert.deepStrictEqual(yield* Effect.provide(schema, Layer.fresh(direct)), whole)
  }).pipe(Effect.scoped)
)

it.live("says what the user may not", () =>
  Effect.gen(function* () {
    const url = yield* freshDatabase
    const { reason } = yield* Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`revoke create on schema public from public`
      yield* sql`set role pg_monitor`
      return yield* Effect.flip(Effect.catchTag(Migrations.run, "MigrationBlocked", Effect.die))
    }).pipe(Effect.provide(PgClient.layer({ url, maxConnections: 1 })))
    assert.include(inspect(reason.cause, { depth: null }), "permission denied for schema public")
  }).pipe(Effect.scoped)
)

/** The migrations before the last one. */
const earlier = Object.entries(Migrations.migrations).slice(0, -1)

/** The names of the rows that a gateway of this version has written. */
const named = (text: string, version: number) =>
  text.replaceAll(/\b(?:ann|bob|(?:session|plan|msg|task)_\d)\b/g, (name) => `${name}_${version}`)

/** A database that got one migration after the other, and rows of a gateway of each version; then a replica that takes over what they have left. */
class Ladder extends Context.Service<Ladder, ReadonlyArray<AbandonedPlan>>()("test/Ladder") {
  static readonly layer = Layer.effect(
    Ladder,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (let version = 1; version <= earlier.length; version++) {
        yield* Migrations.runOf(Object.fromEntries(earlier.slice(0, version)))
        for (const statement of written) yield* sql.unsafe(named(statement, version))
      }
      yield* Migrations.run
      return yield* (yield* PlanStore).takeOver("replica_b", Duration.seconds(15), 10_000)
    })
  ).pipe(
    Layer.provideMerge(Layer.provide(SqlPlanStore.layer({ sessionTtl }), [Publisher.layerAlone, Notices.layerMemory])),
    Layer.provideMerge(Layer.unwrap(Effect.map(freshDatabase, (url) => PgClient.layer({ url, maxConnections: 2 }))))
  )
}

layer(Ladder.layer, { excludeTestServices: true })("a start of this version", (it) => {
  for (let version = 1; version <= earlier.length; version++) {
    it.effect(`brings the tables of version ${version} up to date, and keeps what is in them`, () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const of = (name: string) => named(name, version)
        assert.deepStrictEqual(
          yield* sql`
select s.last_seq - s.reverted_count as message_count, m.id as message_id, t.reverted, p.id as plan_id
from sessions s join plans p on p.session_id = s.id join messages m on m.session_id = s.id join tasks t on t.plan_id = p.id
where s.id = ${of("session_1")}`,
          [{ message_count: 1, message_id: of("msg_1"), reverted: false, plan_id: of("plan_1") }]
        )
        const store = yield* PlanStore
        const bob = CallerName.make(of("bob"))
        // From then on a row has them from its write.
        if (version < 17) {
          const { items } = yield* store.list(bob, { error_code: "internal" }, { limit: 10 })
          assert.deepStrictEqual(
            items.map(({ caller, cost_usd, retries }) => ({ caller, cost_usd, retries })),
            [{ caller: bob, cost_usd: null, retries: 0 }]
          )
          const [ended = assert.fail()] = items
          assert.isNull((yield* store.get(bob, ended.plan_id)).request)
          assert.deepStrictEqual(
            (yield* store.events(ended.plan_id, 0, 10)).map(({ at }) => at),
            ["2026-01-01", "2026-01-02", "2026-01-02"].map((day) => `${day}T00:00:00.000Z`)
          )
          yield* sql`insert into events (plan_id, seq, count, event, payload) values (${ended.plan_id}, 4, 1, 'notice', '{}')`
          const [late] = yield* store.events(ended.plan_id, 3, 1)
          assert.isAbove(Date.parse(late?.at ?? ""), Date.parse("2026-01-03"))
        }

        const taken = (yield* Ladder).filter(({ plan }) => plan.plan_id === of("plan_1"))
        assert.deepStrictEqual(
          taken.map(({ owner, request, route, deaths, tail, tasks }) => [
            { owner, request, route, deaths },
            [tail.length, tasks.length]
          ]),
          [[{ owner: CallerName.make(of("ann")), request: null, route: { hops: 0, via: [] }, deaths: 0 }, [1, 1]]]
        )
        assert.lengthOf(yield* Ladder, earlier.length)
      })
    )
  }
})
