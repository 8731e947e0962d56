import { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { translateErrors } from "../internal/StorageErrors.ts"
import { attempt } from "./EmbeddedDatabase.ts"
import * as NewFolder from "./internal/NewFolder.ts"
import { start } from "./internal/Postgres.ts"
import { SharedSession } from "./internal/SharedSession.ts"

export type MemoryDatabase = Effect.Success<ReturnType<typeof open>>

/** A Postgres in the memory of this process: a new one, or as it was when `dump` made the image. It goes with the scope. */
export const open = Effect.fnUntraced(function* (image?: Blob) {
  const loadDataDir = image ?? new Blob([NewFolder.archive()])
  const db = yield* Effect.acquireRelease(
    attempt(() => start({ loadDataDir })),
    (db) => Effect.promise(() => db.close())
  )
  const { connect } = new SharedSession(db)
  return {
    /** A client with connections of its own. Transactions wait for one another, so they meet no lock and no conflict. */
    client: translateErrors(PgClient.make({ stream: connect, username: "postgres", database: "postgres" })),
    /** All that is in the database, for another one. */
    dump: attempt(() => db.dumpDataDir("none"))
  }
})
