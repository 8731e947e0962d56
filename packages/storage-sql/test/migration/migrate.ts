// A process that brings the database of the URL that it is given up to date.
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import * as Migrations from "../../src/migration/Migrations.ts"

const url = Redacted.make(process.argv[2] ?? "")
await Effect.runPromise(Migrations.run.pipe(Effect.provide(PgClient.layer({ url, maxConnections: 2 }))))
