import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import * as Given from "@bowline/testing/unstable/store/Given"
import { assert, describe, it } from "@effect/vitest"
import { Config, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomBytes } from "node:crypto"
import { readdirSync, statSync } from "node:fs"
import { join } from "node:path"
import * as EmbeddedDatabase from "../../src/embedded/EmbeddedDatabase.ts"
import * as SqlStore from "../../src/SqlStore.ts"
import { PgClient } from "@effect/sql-pg"
import { sessionTtl, temporaryFolder } from "../stores.ts"

const mebibyte = 1_048_576

const sizeOf = (folder: string): number =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((path) => statSync(join(folder, path)).size)
    .reduce((sum, size) => sum + size, 0)

/** A plan that says 400 KB which nothing can compress. */
const runPlan = Effect.gen(function* () {
  const held = yield* Given.createHeld()
  const message = yield* Given.appended(randomBytes(300_000).toString("base64"))
  yield* Given.write(held, [message], [Given.row(2, "step")])
  yield* Given.finish(held)
  return held.session_id
})

/** Runs 60 plans, which write as much as 2,000 small ones, and deletes their sessions. */
const churn = Effect.gen(function* () {
  const { delete: remove } = yield* SessionStore
  yield* Effect.forEach(yield* Effect.replicateEffect(runPlan, 60), (id) => remove(id))
})

/** What the log keeps for a crash, in bytes, and how many rows are dead in tables that are due. */
const waste = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly wal: number; readonly dead: number }>`
select (pg_current_wal_insert_lsn() - redo_lsn)::float8 as wal, (select sum(n_dead_tup)::float8 from pg_stat_user_tables) as dead
from pg_control_checkpoint()`
  return row ?? { wal: Infinity, dead: Infinity }
})

/** What the log may have before a checkpoint lets it shrink, as the database says it. */
const maxLog = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly max_wal_size: string }>`show max_wal_size`
  return row?.max_wal_size
})

/** A second of virtual time, and what the database does in it, which takes real time. */
const second = Effect.andThen(TestClock.adjust("1 second"), TestClock.withLive(Effect.sleep("1 millis")))

/** Gives the database a while in which nobody uses it, until it is maintained; two minutes at most. */
const rest = Effect.replicateEffect(second, 15, { discard: true }).pipe(
  Effect.andThen(waste),
  Effect.repeat({ until: ({ wal, dead }) => wal < 16 * mebibyte && dead < 500, times: 7 })
)

const database = Effect.map(temporaryFolder, (dataDir) => ({
  dataDir,
  stores: SqlStore.layerNoDeps({ sessionTtl, isShared: false }).pipe(
    Layer.provideMerge(PgClient.layerFrom(EmbeddedDatabase.make(dataDir)))
  )
}))

describe("a long run on the embedded database", () => {
  it.effect(
    "keeps its folder small, however much passes through it",
    () =>
      Effect.gen(function* () {
        const { dataDir, stores } = yield* database
        const rounds = yield* Config.Int("BOWLINE_CHURNS").pipe(Config.withDefault(3))
        const rests = Effect.replicateEffect(Effect.andThen(churn, rest), rounds, { discard: true })
        const log = yield* Effect.provide(Effect.andThen(rests, maxLog), yield* Layer.build(stores))
        // The vacuum behind a deletion of large files writes hundreds of MB, which this test does not.
        assert.strictEqual(log, "96MB")
        // An empty database has 8 MB, its log at most 96, what passes through in a round 24.
        assert.isAtMost(sizeOf(dataDir), 164 * mebibyte)
      }),
    600_000
  )

  it.effect("vacuums a table after a minute in which somebody has used the database all the time", () =>
    Effect.gen(function* () {
      const { stores } = yield* database
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`create table people as select generate_series(1, 1000)`
        yield* sql`delete from people`
        yield* sql`select pg_stat_force_next_flush()`
        const vacuums = sql<{ readonly n: number }>`
select vacuum_count::int as n from pg_stat_user_tables where relname = 'people'`
        const vacuumsAfter = (seconds: number) =>
          Effect.map(
            Effect.replicateEffect(Effect.andThen(second, vacuums), seconds),
            (counts) => counts.at(-1)?.[0]?.n
          )
        assert.strictEqual(yield* vacuumsAfter(60), 0)
        assert.strictEqual(yield* vacuumsAfter(30), 1)
      }).pipe(Effect.provide(yield* Layer.build(stores)))
    })
  )
})
