import { Rejected, StorageError } from "@bowline/domain/storage/StorageError"
import { PgClient } from "@effect/sql-pg"
import { Effect, Predicate } from "effect"
import { existsSync } from "node:fs"
import { rename, rm } from "node:fs/promises"
import { join } from "node:path"
import { translateErrors } from "../internal/StorageErrors.ts"
import * as DataDir from "./DataDir.ts"
import { connect } from "./internal/Wire.ts"
import { maintain } from "./internal/Maintenance.ts"

/** The errors of the embedded database's files have a WASI number and no text. */
const wasi = new Map<unknown, string>([
  [2, "EACCES: permission denied"],
  [19, "EDQUOT: quota exceeded"],
  [29, "EIO: i/o error"],
  [51, "ENOSPC: no space left on device"],
  [63, "EPERM: operation not permitted"],
  [69, "EROFS: read-only file system"]
])

/** Gives an error that has only a number a text. */
const describe = (cause: unknown): unknown =>
  cause instanceof Error || !Predicate.hasProperty(cause, "errno")
    ? cause
    : new Error(wasi.get(cause.errno) ?? `The file system failed with ${String(cause.errno)}`)

const attempt = <A>(promise: () => Promise<A>) =>
  Effect.tryPromise({
    try: promise,
    catch: (cause) => new StorageError({ reason: new Rejected({ cause: describe(cause) }) })
  })

/** Creates the folder under another name and renames it when it is complete, in case the process dies meanwhile. */
const open = Effect.fnUntraced(function* (dataDir: string) {
  const { PGlite } = yield* Effect.promise(() => import("@electric-sql/pglite"))
  const folder = join(dataDir, "postgres")
  if (!existsSync(folder)) {
    const unfinished = `${folder}.new`
    yield* attempt(() => rm(unfinished, { recursive: true, force: true }))
    const db = yield* attempt(() => PGlite.create(unfinished))
    yield* attempt(() => db.close())
    yield* attempt(() => rename(unfinished, folder))
  }
  // PGlite creates files that everybody may write.
  yield* DataDir.closeToOthers(folder)
  return yield* attempt(() => PGlite.create(folder))
})

/**
 * A client of a Postgres that runs inside this process, on the files in `dataDir`. It has one connection, so that
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
