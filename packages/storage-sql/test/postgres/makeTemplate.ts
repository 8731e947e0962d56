import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { randomBytes } from "node:crypto"
import * as Migrations from "../../src/migration/Migrations.ts"

/** Makes a database that others are copied from, and returns its name and what drops it. Nobody connects to it any more: that would hold up its copies. */
export const makeTemplate = async (server: string) => {
  const name = `bowline_template_${randomBytes(8).toString("hex")}`
  const admin = (statement: string) =>
    PgClient.makeClient({ url: Redacted.make(server) }).pipe(
      Effect.flatMap((sql) => sql.unsafe(statement)),
      Effect.scoped,
      Effect.provide(Reactivity.layer)
    )
  const url = new URL(server)
  url.pathname = `/${name}`
  await admin(`create database ${name}`).pipe(
    Effect.andThen(Effect.provide(Migrations.run, PgClient.layer({ url: Redacted.make(url.toString()) }))),
    Effect.andThen(admin(`alter database ${name} allow_connections false`)),
    Effect.runPromise
  )
  return { name, drop: () => Effect.runPromise(Effect.asVoid(admin(`drop database ${name} with (force)`))) }
}
