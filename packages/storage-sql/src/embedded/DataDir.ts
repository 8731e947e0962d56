import { Rejected, StorageError } from "@bowline/domain/storage/StorageError"
import { Data, Effect, Predicate } from "effect"
import { chmodSync, mkdirSync, readdirSync, statSync } from "node:fs"
import { dirname, join, resolve } from "node:path"

/** Another process has the embedded database open, which is for one process only. */
export class DataDirInUse extends Data.TaggedError("DataDirInUse")<{ readonly dataDir: string }> {
  override get message(): string {
    return `Another process uses the embedded database in ${resolve(this.dataDir)}`
  }
}

const sqliteBusy = 5

const attempt = <A>(run: () => A) =>
  Effect.try({ try: run, catch: (cause) => new StorageError({ reason: new Rejected({ cause }) }) })

/** Closes a folder of the gateway, and all in it, to other users, whatever the umask of the process is. Follows no links. */
export const closeToOthers = (folder: string) =>
  attempt(() => {
    chmodSync(folder, 0o700)
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name)
      if (entry.isDirectory()) chmodSync(path, 0o700)
      if (entry.isFile()) chmodSync(path, 0o600)
    }
  })

/** Makes a folder and those above it. Node's own recursive `mkdir` never returns in a file system such as `/proc`. */
const makeAll = (folder: string): void => {
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true) return
  makeAll(dirname(folder))
  mkdirSync(folder, { mode: 0o700 })
}

/** A folder of another user, or one that the system shares such as `/tmp`, stays as open as it is. */
const makeFolder = (dataDir: string) =>
  attempt(() => {
    makeAll(resolve(dataDir))
    const { uid, mode } = statSync(dataDir)
    const isShared = (mode & 0o1000) !== 0
    if (!isShared && uid === process.getuid?.()) chmodSync(dataDir, 0o700)
  })

/**
 * Makes the folder if there is none, closes it to other users, and keeps every other process out until the scope closes. The
 * operating system holds the lock, on a file of SQLite's: it ends with the process, however that ends, and does not depend on
 * process ids, which start anew in every container.
 */
export const lock = Effect.fnUntraced(function* (dataDir: string) {
  yield* makeFolder(dataDir)
  const { DatabaseSync } = yield* Effect.promise(() => import("node:sqlite"))
  const path = join(dataDir, "lock")
  const file = yield* Effect.acquireRelease(
    attempt(() => new DatabaseSync(path)),
    (file) => Effect.sync(() => file.close())
  )
  yield* attempt(() => chmodSync(path, 0o600))
  yield* Effect.try({
    try: () => file.exec("begin exclusive"),
    catch: (cause) =>
      Predicate.hasProperty(cause, "errcode") && cause.errcode === sqliteBusy
        ? new DataDirInUse({ dataDir })
        : new StorageError({ reason: new Rejected({ cause }) })
  })
})
