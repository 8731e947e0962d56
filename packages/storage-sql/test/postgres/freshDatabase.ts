import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { randomBytes } from "node:crypto"
import { inject } from "vitest"

const databaseLike = Effect.fnUntraced(function* (template: string) {
  const server = inject("postgresUrl")
  const name = `bowline_test_${randomBytes(8).toString("hex")}`
  const sql = yield* PgClient.makeClient({ url: Redacted.make(server), applicationName: "fresh-database" })
  // The files are copied: to log each of their pages takes twice as long.
  yield* Effect.acquireRelease(sql`create database ${sql(name)} template ${sql(template)} strategy file_copy`, () =>
    Effect.orDie(sql`drop database ${sql(name)} with (force)`)
  )
  const url = new URL(server)
  url.pathname = `/${name}`
  return Redacted.make(url.toString())
}, Effect.provide(Reactivity.layer))

/**
 * The URL of an empty database on the real server, dropped when the scope closes, together with whoever is still
 * connected to it.
 */
export const freshDatabase = databaseLike("template1")

/** The same with all tables, for a test that is not about how they are made. */
export const migratedDatabase = Effect.suspend(() => databaseLike(inject("postgresTemplate")))
