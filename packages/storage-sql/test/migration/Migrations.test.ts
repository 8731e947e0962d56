import { PgClient } from "@effect/sql-pg"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Migrations from "../../src/migration/Migrations.ts"
import { freshDatabase } from "../postgres/freshDatabase.ts"

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
        { migration_id: 4, name: "sessions" }
      ])
      assert.deepStrictEqual(yield* sql`select count(*)::int as plans from plans`, [{ plans: 0 }])
    }).pipe(Effect.provide(process))
  }).pipe(Effect.scoped)
)
