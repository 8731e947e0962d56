import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { randomBytes } from "node:crypto"
import { inject } from "vitest"

/**
 * The URL of an empty database on the real server, dropped when the scope closes, together with whoever is still
 * connected to it.
 */
export const freshDatabase = Effect.gen(function* () {
  const server = inject("postgresUrl")
  const name = `bowline_test_${randomBytes(8).toString("hex")}`
  const sql = yield* PgClient.makeClient({ url: Redacted.make(server), applicationName: "fresh-database" })
  yield* Effect.acquireRelease(sql`create database ${sql(name)}`, () =>
    Effect.orDie(sql`drop database ${sql(name)} with (force)`)
  )
  const url = new URL(server)
  url.pathname = `/${name}`
  return Redacted.make(url.toString())
}).pipe(Effect.provide(Reactivity.layer))
