import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Latch, Redacted, Schedule } from "effect"
import { Reactivity } from "effect/reactivity"
import { databases } from "../plan/Databases.ts"
import { send, start } from "./RunningGateway.ts"

/** A gateway on Postgres, and what an administrator does to its database. */
const begin = Effect.gen(function* () {
  const settings = yield* databases.postgres
  const { url } = yield* start([], { ...settings, BOWLINE_LEASE_TTL: "1s" })
  const sql = yield* PgClient.makeClient({ url: Redacted.make(settings.DATABASE_URL) })
  /** Asks until this failed and nothing else. */
  const failing = (...expected: ReadonlyArray<string>) =>
    Effect.repeat(send(`${url}/ready`), {
      until: ({ body }) => JSON.stringify(body["failed"] ?? []) === JSON.stringify(expected),
      schedule: Schedule.spaced("20 millis")
    })
  return { sql, failing }
}).pipe(Effect.provide(Reactivity.layer))

describe("readiness", () => {
  it.live("ends when the database takes no writes, as after a failover to a standby, and comes back with them", () =>
    Effect.gen(function* () {
      const { failing, sql } = yield* begin
      yield* failing()
      // What holds for new connections: the old ones are closed.
      const set = (value: string) =>
        sql.unsafe(`do $$ begin
          execute format('alter database %I set default_transaction_read_only = ${value}', current_database());
          perform pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid();
        end $$`)
      yield* set("on")
      const { status, body } = yield* failing("database_writable", "leases")
      assert.deepStrictEqual([status, body["code"]], [503, "unavailable"])
      yield* sql.unsafe("set default_transaction_read_only = off")
      yield* set("off")
      yield* failing()
    }).pipe(Effect.scoped)
  )

  it.live("ends when no lease was renewed for as long as one lasts, though the database answers", () =>
    Effect.gen(function* () {
      const { failing, sql } = yield* begin
      yield* failing()
      const locked = yield* Latch.make()
      const done = yield* Latch.make()
      const lock = yield* Effect.forkChild(
        sql.withTransaction(
          sql`lock table replicas in access exclusive mode`.pipe(
            Effect.andThen(locked.open),
            Effect.andThen(done.await)
          )
        )
      )
      yield* locked.await
      yield* failing("leases")
      yield* done.open
      yield* Fiber.join(lock)
      yield* failing()
    }).pipe(Effect.scoped)
  )
})
