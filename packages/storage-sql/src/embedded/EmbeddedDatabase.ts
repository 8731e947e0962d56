import { Rejected, StorageError } from "@bowline/domain/storage/StorageError"
import { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { existsSync, renameSync, rmSync } from "node:fs"
import { join } from "node:path"
import { translateErrors } from "../internal/StorageErrors.ts"
import * as DataDir from "./DataDir.ts"
import { maintain } from "./internal/Maintenance.ts"
import * as NewFolder from "./internal/NewFolder.ts"
import { connect } from "./internal/PgWire.ts"
import { describe } from "./internal/Postgres.ts"
import { PostgresThread } from "./internal/PostgresThread.ts"

export const attempt = <A>(promise: () => Promise<A>) =>
  Effect.tryPromise({
    try: promise,
    catch: (cause) => new StorageError({ reason: new Rejected({ cause: describe(cause) }) })
  })

/** Makes the folder under another name and renames it when it is complete, in case the process dies meanwhile. */
const makeFolder = (folder: string) =>
  attempt(async () => {
    const unfinished = `${folder}.new`
    rmSync(unfinished, { recursive: true, force: true })
    NewFolder.unpack(unfinished)
    renameSync(unfinished, folder)
  })

const open = Effect.fnUntraced(function* (dataDir: string) {
  const folder = join(dataDir, "postgres")
  if (!existsSync(folder)) yield* makeFolder(folder)
  // PGlite creates files that everybody may write.
  yield* DataDir.closeToOthers(folder)
  return yield* attempt(() => PostgresThread.open(folder))
})

/**
 * A client of a Postgres that runs in a thread of this process, on the files in `dataDir`. It has one connection, so that
 * transactions wait for one another; it replaces a connection that broke. Committed data survives the end of the process, but not
 * always that of the machine: the files are not synced. Fails with `DataDirInUse` if another process uses the folder.
 */
export const make = Effect.fnUntraced(function* (dataDir: string) {
  yield* DataDir.lock(dataDir)
  const db = yield* Effect.acquireRelease(open(dataDir), (db) => Effect.promise(() => db.close()))
  let messages = 0
  const client = yield* translateErrors(
    PgClient.make({
      stream: () => connect(db, () => messages++),
      username: "postgres",
      database: "postgres",
      minConnections: 1,
      maxConnections: 1
    })
  )
  const isQuiet = Effect.suspend(() => {
    const before = messages
    return Effect.map(Effect.sleep("1 second"), () => messages === before)
  })
  yield* Effect.forkScoped(maintain(client, isQuiet))
  return client
})
