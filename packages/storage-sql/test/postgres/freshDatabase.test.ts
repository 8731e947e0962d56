import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Redacted, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { inject } from "vitest"
import { freshDatabase } from "./freshDatabase.ts"

const connect = (url: string) => PgClient.makeClient({ url: Redacted.make(url) })

const databases = Effect.gen(function* () {
  const sql = yield* connect(inject("postgresUrl"))
  const rows = yield* sql<{ readonly datname: string }>`select datname from pg_database`
  return rows.map((row) => row.datname)
}).pipe(Effect.scoped)

const nameOf = (url: Redacted.Redacted) => new URL(Redacted.value(url)).pathname.slice(1)

describe("freshDatabase", () => {
  it.live("gives two tests on one server tables of the same name that do not meet", () =>
    Effect.gen(function* () {
      const counts = yield* Effect.forEach(
        [yield* freshDatabase, yield* freshDatabase],
        Effect.fnUntraced(function* (url) {
          const sql = yield* connect(Redacted.value(url))
          yield* sql`create table plans (id int primary key)`
          yield* sql`insert into plans values (1)`
          return yield* sql`select id from plans`
        }),
        { concurrency: 2 }
      )
      assert.deepStrictEqual(counts, [[{ id: 1 }], [{ id: 1 }]])
    }).pipe(Effect.provide(Reactivity.layer), Effect.scoped)
  )

  it.live("drops the database with its scope, though somebody is still connected to it", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const url = yield* Scope.provide(freshDatabase, scope)
      const sql = yield* connect(Redacted.value(url))
      yield* sql`select 1`
      assert.include(yield* databases, nameOf(url))
      yield* Scope.close(scope, Exit.void)
      assert.notInclude(yield* databases, nameOf(url))
    }).pipe(Effect.provide(Reactivity.layer), Effect.scoped)
  )
})
