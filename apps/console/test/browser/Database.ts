import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { randomBytes } from "node:crypto"
import { inject } from "vitest"

declare module "vitest" {
  interface ProvidedContext {
    readonly postgresUrl: string
    readonly postgresTemplate: string
  }
}

/** A database of its own on the Postgres of all tests, with all tables. */
export const database = Effect.gen(function* () {
  const url = new URL(inject("postgresUrl"))
  const name = `bowline_console_${randomBytes(8).toString("hex")}`
  const sql = yield* PgClient.makeClient({ url: Redacted.make(url.toString()) })
  yield* Effect.acquireRelease(
    sql`create database ${sql(name)} template ${sql(inject("postgresTemplate"))} strategy file_copy`,
    () => Effect.orDie(sql`drop database ${sql(name)} with (force)`)
  )
  url.pathname = `/${name}`
  return url
}).pipe(Effect.provide(Reactivity.layer))

/** The caller has connected this account. Nobody can read the tokens. */
export const connectAccount = Effect.fnUntraced(
  function* (url: URL, caller: string, account: string) {
    const sql = yield* PgClient.makeClient({ url: Redacted.make(url.toString()) })
    yield* sql`insert into account_grants (owner, account, sealed, scopes, connected_at, expires_at)
values (${caller}, ${account}, 'sealed', '{read,pay}', '2026-01-02T03:04:05Z', now() + interval '1 hour')`
  },
  Effect.scoped,
  Effect.provide(Reactivity.layer)
)

/** Lets the database refuse every row of this table from now on. */
export const refuseRowsOf = Effect.fnUntraced(
  function* (url: URL, table: "tasks") {
    const sql = yield* PgClient.makeClient({ url: Redacted.make(url.toString()) })
    yield* sql`create function refuse() returns trigger language plpgsql as 'begin raise exception ''no room''; end'`
    yield* sql`create trigger refuse before insert on ${sql(table)} for each row execute function refuse()`
  },
  Effect.scoped,
  Effect.provide(Reactivity.layer)
)
