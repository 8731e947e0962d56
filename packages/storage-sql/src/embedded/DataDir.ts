import { Rejected, StorageError } from "@bowline/domain/storage/StorageError"
import { Data, Effect, Option, Predicate } from "effect"
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs"
import { dirname, join, resolve } from "node:path"

/** Another process has the embedded database open, which is for one process only. */
export class DataDirInUse extends Data.TaggedError("DataDirInUse")<{ readonly dataDir: string }> {
  override get message(): string {
    return `Another process uses the embedded database in ${resolve(this.dataDir)}`
  }
}

const sqliteBusy = 5

/** The process that holds a lock on a file, where the system tells: on Linux, and for processes of the same container. */
const holderOf = (path: string): number | undefined => {
  const { ino } = statSync(path)
  const locks = readFileSync("/proc/locks", "utf8").split("\n")
  const pids = locks.flatMap((line) => {
    const [, pid, inode] = / WRITE +(\d+) [0-9a-f]+:[0-9a-f]+:(\d+) /.exec(line) ?? []
    return Number(inode) === ino && Number(pid) > 0 ? [Number(pid)] : []
  })
  return pids[0]
}

/** Whether a process has the folder open, and which one, if the system tells. It changes nothing, and takes no lock that `lock` would meet. */
export const inspect = Effect.fnUntraced(function* (dataDir: string) {
  const path = join(dataDir, "lock")
  if (!existsSync(path)) return { isHeld: false }
  const { DatabaseSync } = yield* Effect.promise(() => import("node:sqlite"))
  const isHeld = yield* attempt(() => {
    const file = new DatabaseSync(path, { readOnly: true })
    try {
      file.exec("pragma schema_version")
      return false
    } catch (cause) {
      if (isBusy(cause)) return true
      throw cause
    } finally {
      file.close()
    }
  })
  const holder = isHeld ? yield* Effect.option(attempt(() => holderOf(path))) : Option.none()
  return { isHeld, pid: Option.getOrUndefined(holder) }
})

const isBusy = (cause: unknown): boolean => Predicate.hasProperty(cause, "errcode") && cause.errcode === sqliteBusy

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
      isBusy(cause) ? new DataDirInUse({ dataDir }) : new StorageError({ reason: new Rejected({ cause }) })
  })
})
