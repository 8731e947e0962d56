import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import * as Migrations from "../../src/migration/Migrations.ts"
import { freshDatabase } from "../postgres/freshDatabase.ts"
import { written } from "./written.ts"

/** The version before the one whose migration has a step of each kind. */
const before = Object.fromEntries(Object.entries(Migrations.migrations).slice(0, 16))

/** What makes one of the steps wait, in a transaction of somebody else, and how that step begins. */
const steps = [
  { kind: "statement", hold: ["lock table plans in access share mode"], begins: "alter table plans" },
  { kind: "backfill", hold: ["select pg_advisory_xact_lock(42)"], begins: "with batch" },
  // It waits for the ends of all transactions that have a snapshot.
  {
    kind: "index",
    hold: ["set transaction isolation level repeatable read", "select 1"],
    begins: "create index concurrently"
  }
]

/** Whoever changes a plan waits for who holds the lock. */
const heldUpdates = [
  `create function wait_for_42() returns trigger language plpgsql as $$
begin perform pg_advisory_xact_lock(42); return new; end $$`,
  "create trigger wait before update on plans for each row execute function wait_for_42()"
]

/** A process that migrates. It is killed when the scope closes, if it lives still. */
const startMigrating = (url: Redacted.Redacted) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const script = fileURLToPath(import.meta.resolve("./migrate.ts"))
      return spawn(process.execPath, [script, Redacted.value(url)], { stdio: "inherit" })
    }),
    (child) => Effect.sync(() => void child.kill("SIGKILL"))
  )

describe("a start that is killed in the middle of a migration", () => {
  for (const { begins, hold, kind } of steps) {
    it.live(`is continued by the next one, where it was at ${kind === "index" ? "an" : "a"} ${kind}`, () =>
      Effect.gen(function* () {
        const url = yield* freshDatabase
        const connection = PgClient.layer({ url, maxConnections: 1 })
        const own = Layer.fresh(connection)
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          yield* Migrations.runOf(before)
          const more = kind === "backfill" ? heldUpdates : []
          for (const statement of [...written, ...more]) yield* sql.unsafe(statement)
        }).pipe(Effect.provide(own))

        yield* Effect.gen(function* () {
          const holder = yield* SqlClient.SqlClient
          yield* holder.withTransaction(
            Effect.gen(function* () {
              for (const statement of hold) yield* holder.unsafe(statement)
              const child = yield* startMigrating(url)
              const waits = Effect.flatMap(
                SqlClient.SqlClient,
                (sql) => sql`
select from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock' and ltrim(query) like ${`${begins}%`}`
              )
              yield* Effect.repeat(waits, {
                until: (rows) => rows.length > 0,
                schedule: Schedule.spaced("5 millis")
              }).pipe(Effect.provide(own))
              const ended = once(child, "exit")
              child.kill("SIGKILL")
              assert.deepStrictEqual(yield* Effect.promise(() => ended), [null, "SIGKILL"])
            })
          )
        }).pipe(Effect.scoped, Effect.provide(Layer.fresh(connection)))

        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          assert.include((yield* Migrations.compare).pending, "0017_plan_facts")
          yield* Migrations.run
          assert.deepStrictEqual((yield* Migrations.compare).pending, [])
          assert.deepStrictEqual(yield* sql`select id, error_code from plans order by id`, [
            { id: "plan_1", error_code: null },
            { id: "plan_2", error_code: "internal" }
          ])
          assert.deepStrictEqual(
            yield* sql`select indexrelid::regclass::text as index from pg_index where not indisvalid`,
            []
          )
        }).pipe(Effect.provide(Layer.fresh(PgClient.layer({ url, maxConnections: 2 }))))
      }).pipe(Effect.scoped)
    )
  }
})
