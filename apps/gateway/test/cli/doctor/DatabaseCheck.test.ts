import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { databaseCheck } from "../../../src/cli/doctor/DatabaseCheck.ts"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { start } from "../../http/RunningGateway.ts"
import { newPostgres } from "../../plan/Databases.ts"
import { start as startProcess } from "../../plan/GatewayProcess.ts"
import { findings } from "./Findings.ts"

const ofDatabase = (environment: Readonly<Record<string, string>>) =>
  findings({ OPENAI_API_KEY: "key", ...environment }, (config) => [databaseCheck(config)])

describe("bowline doctor", () => {
  it.live("tells why a Postgres server cannot be used, and what to do", () =>
    Effect.gen(function* () {
      const { DATABASE_URL } = yield* newPostgres
      for (const [change, found, what] of [
        [{ pathname: "/no_such_database" }, /"no_such_database" does not exist$/, /^Create the database/],
        [{ password: "planted-secret" }, /: password authentication failed for user "\w+"$/, /^Correct the user and/],
        [{ host: "127.0.0.1:1" }, /127\.0\.0\.1:1\/.*: connect ECONNREFUSED 127\.0\.0\.1:1$/, /^Nothing listens/],
        // No name server is asked for such a name: one that is away would say something else.
        [{ host: "-nowhere.invalid:1" }, /: getaddrinfo ENOTFOUND -nowhere\.invalid$/, /^The name does not resolve/]
      ] as const) {
        const url = new URL(DATABASE_URL)
        Object.assign(url, change)
        const { advice, of } = yield* ofDatabase({ DATABASE_URL: url.toString() })
        assert.match(of("database").join(), found)
        assert.match(of("database").join(), /^fail Postgres at /)
        assert.match(advice, what)
        assert.notInclude(of("database").join(), url.password)
      }
    }).pipe(Effect.scoped)
  )

  it.live("compares the migrations of a database with its own, and runs none", () =>
    Effect.gen(function* () {
      const { DATABASE_URL } = yield* newPostgres
      const migrations = Effect.map(ofDatabase({ DATABASE_URL }), ({ of }) => of("migrations").join())
      assert.strictEqual(yield* migrations, "ok none yet; serve creates the tables")
      const sql = yield* PgClient.makeClient({ url: Redacted.make(DATABASE_URL) })
      assert.deepStrictEqual(yield* sql`select * from information_schema.tables where table_schema = 'public'`, [])
      yield* Effect.scoped(start([], { DATABASE_URL }))
      yield* sql`insert into bowline_migrations (migration_id, name) values (9999, 'later')`
      assert.match(yield* migrations, /^warn \d+ migrations, of which this version does not know 9999_later$/)
      yield* sql`delete from bowline_migrations where migration_id in (9999, 2)`
      assert.match(yield* migrations, /^warn \d+ migrations; pending: 0002_credentials$/)
      assert.deepStrictEqual(yield* sql`select name from bowline_migrations where migration_id = 2`, [])
    }).pipe(Effect.provide(Reactivity.layer), Effect.scoped)
  )

  it.live("tells of a database that takes no writes, and of a user who may not create tables", () =>
    Effect.gen(function* () {
      const { DATABASE_URL } = yield* newPostgres
      const sql = yield* PgClient.makeClient({ url: Redacted.make(DATABASE_URL) })
      const url = new URL(DATABASE_URL)
      url.username = url.pathname.slice(1)
      url.password = "right"
      yield* Effect.acquireRelease(sql`create role ${sql(url.username)} login password 'right'`, () =>
        Effect.orDie(sql`drop role ${sql(url.username)}`)
      )
      yield* sql`revoke create on schema public from public`
      const limited = yield* ofDatabase({ DATABASE_URL: url.toString() })
      assert.match(limited.of("migrations").join(), /^fail \d+ are pending, and the user may not create tables$/)
      yield* sql`alter database ${sql(url.username)} set default_transaction_read_only = on`
      const readOnly = yield* ofDatabase({ DATABASE_URL })
      assert.match(readOnly.of("database").join("\n"), /^fail Postgres [0-9.]+ at .* takes no writes$/m)
    }).pipe(Effect.provide(Reactivity.layer), Effect.scoped)
  )

  it.live("creates no embedded database, and leaves that of a running gateway alone", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({ file: "" })
      const database = (BOWLINE_DATA_DIR: string) =>
        Effect.map(ofDatabase({ BOWLINE_DATA_DIR }), ({ of }) => of("database").join())
      const data = join(folder, "data")
      assert.strictEqual(yield* database(data), `ok embedded; serve creates ${data}`)
      assert.deepStrictEqual(readdirSync(folder), ["file"])
      assert.match(
        yield* database(join(folder, "file", "data")),
        /^fail .*file is no folder that this process may write/
      )
      const gateway = yield* startProcess({ BOWLINE_DATA_DIR: data })
      const held = new RegExp(`^ok embedded, in ${data}, which (a process|process ${gateway.pid}) has open`)
      assert.match(yield* database(data), held)
      yield* gateway.kill("SIGKILL")
      const before = readdirSync(data, { recursive: true })
      assert.strictEqual(
        yield* database(data),
        `ok embedded, in ${data}, which nobody has open; serve brings its tables up to date`
      )
      assert.deepStrictEqual(readdirSync(data, { recursive: true }), before)
    }).pipe(Effect.scoped)
  )
})
