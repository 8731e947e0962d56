import { Rejected, StorageError } from "@bowline/domain/storage/StorageError"
import type { PGliteOptions } from "@electric-sql/pglite"
import { PgClient } from "@effect/sql-pg"
import { Effect, Predicate } from "effect"
import { existsSync, renameSync, rmSync } from "node:fs"
import { join } from "node:path"
import { setFlagsFromString } from "node:v8"
import { translateErrors } from "../internal/StorageErrors.ts"
import * as DataDir from "./DataDir.ts"
import { maintain } from "./internal/Maintenance.ts"
import * as NewFolder from "./internal/NewFolder.ts"
import { connect } from "./internal/PgWire.ts"

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

export const attempt = <A>(promise: () => Promise<A>) =>
  Effect.tryPromise({
    try: promise,
    catch: (cause) => new StorageError({ reason: new Rejected({ cause: describe(cause) }) })
  })

/** PGlite has one session; by default Postgres reserves, and soon touches, 128 MB of buffers for a hundred. */
const settings = ["shared_buffers=16MB", "wal_buffers=512kB", "max_connections=5"]

/** A Postgres in this process. */
export const start = Effect.fnUntraced(function* (options: PGliteOptions) {
  // V8 takes 575 MB to optimize one function of Postgres, its parser. Only both flags together count for a process that runs.
  setFlagsFromString("--no-wasm-tier-up")
  setFlagsFromString("--no-wasm-dynamic-tiering")
  const { PGlite } = yield* Effect.promise(() => import("@electric-sql/pglite"))
  const startParams = [...PGlite.defaultStartParams, ...settings.flatMap((setting) => ["-c", setting])]
  return yield* attempt(() => PGlite.create({ ...options, startParams }))
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
  return yield* start({ dataDir: folder })
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
