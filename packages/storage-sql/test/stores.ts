import { LeaseTime } from "@bowline/testing/unstable/store/StoreCase"
import { PgClient } from "@effect/sql-pg"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as EmbeddedDatabase from "../src/embedded/EmbeddedDatabase.ts"
import * as SqlStore from "../src/SqlStore.ts"
import { migratedDatabase } from "./postgres/freshDatabase.ts"

export const sessionTtl = Duration.days(30)

/** A folder that goes with the scope. */
export const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "bowline-data-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

/** It is the database's clock that counts: rather than to wait, what is stored of it is moved into the past. */
const leaseTime = Layer.effect(
  LeaseTime,
  Effect.map(SqlClient.SqlClient, (sql) => {
    const age = (table: string, column: string, duration: Duration.Duration) =>
      sql`update ${sql(table)} set ${sql(column)} = ${sql(column)} - ${Duration.toMillis(duration)} * interval '1 millisecond'`
    return {
      advance: (duration) =>
        Effect.orDie(
          sql.withTransaction(
            Effect.all([
              age("leases", "expires_at", duration),
              age("replicas", "expires_at", duration),
              age("credentials_state", "until", duration),
              age("credentials_state", "opened_at", duration),
              age("credentials_state", "last_used_at", duration),
              age("credentials_state", "succeeded_at", duration)
            ])
          )
        )
    }
  })
)

const stores = (isShared: boolean) => Layer.mergeAll(SqlStore.layerNoDeps({ sessionTtl, isShared }), leaseTime)

/** The stores in a database of their own on the real server, with its client. A clock of tests must not give up a connection that is being made. */
export const onPostgres = stores(true).pipe(
  Layer.provideMerge(
    Layer.unwrap(
      Effect.map(migratedDatabase, (url) =>
        PgClient.layer({ url, maxConnections: 5, connectTimeout: Duration.infinity })
      )
    )
  )
)

/** The stores in an embedded database of their own, with its client. */
export const onEmbedded = stores(false).pipe(
  Layer.provideMerge(
    Layer.unwrap(Effect.map(temporaryFolder, (folder) => PgClient.layerFrom(EmbeddedDatabase.make(folder))))
  )
)
