import { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { PgClient } from "@effect/sql-pg"
import { assert, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Layer, Logger } from "effect"
import { Migrator, SqlClient } from "effect/sql"
import { inspect } from "node:util"
import { TestClock } from "effect/testing"
import * as Migrations from "../../src/migration/Migrations.ts"
import * as SqlPlanStore from "../../src/plan/SqlPlanStore.ts"
import { freshDatabase } from "../postgres/freshDatabase.ts"
import { sessionTtl } from "../stores.ts"

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
        { migration_id: 21, name: "credential_keys" }
      ])
      assert.deepStrictEqual(yield* sql`select count(*)::int as plans from plans`, [{ plans: 0 }])
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
      const locked = sql`select pg_advisory_xact_lock(hashtextextended('bowline/migrations', 0))`
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
    yield* Fiber.join(running)
  }).pipe(Effect.scoped)
)

it.live("says what the user may not", () =>
  Effect.gen(function* () {
    const url = yield* freshDatabase
    const { reason } = yield* Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`revoke create on schema public from public`
      yield* sql`set role pg_monitor`
      return yield* Effect.flip(Migrations.run)
    }).pipe(Effect.provide(PgClient.layer({ url, maxConnections: 1 })))
    assert.include(inspect(reason.cause, { depth: null }), "permission denied for schema public")
  }).pipe(Effect.scoped)
)

/** The migrations before the last one. */
const earlier = Object.entries(Migrations.migrations).slice(0, -1)

/** What a gateway of the first version has written. */
const written = [
  `insert into sessions (id, owner, last_seq, created_at, last_active_at, expires_at)
    values ('session_1', 'ann', 1, now(), now(), now())`,
  `insert into plans (id, session_id, owner, replica, model, question_hash, preferences, metadata, usage, created_at, deadline_at)
    values ('plan_1', 'session_1', 'ann', 'replica', 'm', 'h', '{}', '{}', '{}', now(), now())`,
  `insert into messages (session_id, seq, id, plan_id, role, parts, created_at)
    values ('session_1', 1, 'msg_1', 'plan_1', 'user', '[]', now())`,
  `insert into tasks (plan_id, id, tool, kind, input, state, started_at)
    values ('plan_1', 'task_1', 'tool', 'peer', '{}', 'completed', now())`,
  `insert into events (plan_id, seq, count, event, payload) values ('plan_1', 1, 1, 'session', '{}')`,
  `insert into plans (id, session_id, owner, replica, model, question_hash, preferences, metadata, usage, state, error,
    created_at, deadline_at, finished_at)
    values ('plan_2', 'session_1', 'bob', 'replica', 'm', 'h', '{}', '{}', '{}', 'failed',
      '{"code":"internal","message":"\\u0000 \\"code\\":\\"no\\""}', '2026-01-01T00:00Z', '2026-01-03T00:00Z', '2026-01-02T00:00Z')`,
  `insert into events (plan_id, seq, count, event, payload)
    values ('plan_2', 1, 1, 'session', '{}'), ('plan_2', 2, 1, 'error', '{}'), ('plan_2', 3, 1, 'done', '{}')`
]

for (let version = 1; version <= earlier.length; version++) {
  it.live(`brings the tables of version ${version} up to date, and keeps what is in them`, () =>
    Effect.gen(function* () {
      const url = yield* freshDatabase
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* Migrator.make({})({
          table: "bowline_migrations",
          loader: Migrator.fromRecord(Object.fromEntries(earlier.slice(0, version)))
        })
        for (const statement of written) yield* sql.unsafe(statement)
        yield* Migrations.run
        assert.deepStrictEqual(
          yield* sql`
select s.last_seq - s.reverted_count as message_count, m.id as message_id, t.reverted, p.id as plan_id
from sessions s join plans p on p.session_id = s.id join messages m on m.session_id = s.id join tasks t on t.plan_id = p.id`,
          [{ message_count: 1, message_id: "msg_1", reverted: false, plan_id: "plan_1" }]
        )
        const store = yield* PlanStore
        const bob = CallerName.make("bob")
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
          yield* sql`insert into events (plan_id, seq, count, event, payload) values ('plan_2', 4, 1, 'notice', '{}')`
          const [late] = yield* store.events(ended.plan_id, 3, 1)
          assert.isAbove(Date.parse(late?.at ?? ""), Date.parse("2026-01-03"))
        }

        const taken = yield* store.takeOver("replica_b", Duration.seconds(15), 10_000)
        assert.deepStrictEqual(
          taken.map(({ owner, request, route, deaths, tail, tasks }) => [
            { owner, request, route, deaths },
            [tail.length, tasks.length]
          ]),
          [[{ owner: CallerName.make("ann"), request: null, route: { hops: 0, via: [] }, deaths: 0 }, [1, 1]]]
        )
      }).pipe(
        Effect.provide(
          Layer.provideMerge(SqlPlanStore.layer({ sessionTtl }), PgClient.layer({ url, maxConnections: 2 }))
        )
      )
    }).pipe(Effect.scoped)
  )
}
