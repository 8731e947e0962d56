import { Rejected, StorageError } from "@bowline/domain/storage/StorageError"
import { Data, Effect, Predicate } from "effect"
import { mkdir } from "node:fs/promises"
import { join, resolve } from "node:path"

/** Another process has the embedded database open: it is for one process only. */
export class DataDirInUse extends Data.TaggedError("DataDirInUse")<{ readonly dataDir: string }> {
  override get message(): string {
    return `Another process uses the embedded database in ${resolve(this.dataDir)}`
  }
}

const sqliteBusy = 5

/**
 * Makes the folder if there is none, and keeps every other process out until the scope closes. The lock is one of the
 * operating system, on a file of SQLite's: it goes with the process, however that ends, and does not depend on ids of
 * processes, which start anew in every container.
 */
export const lock = Effect.fnUntraced(function* (dataDir: string) {
  const fail = (cause: unknown) => new StorageError({ reason: new Rejected({ cause }) })
  yield* Effect.tryPromise({ try: () => mkdir(dataDir, { recursive: true }), catch: fail })
  const { DatabaseSync } = yield* Effect.promise(() => import("node:sqlite"))
  const file = yield* Effect.acquireRelease(
    Effect.try({ try: () => new DatabaseSync(join(dataDir, "lock")), catch: fail }),
    (file) => Effect.sync(() => file.close())
  )
  yield* Effect.try({
    try: () => file.exec("begin exclusive"),
    catch: (cause) =>
      Predicate.hasProperty(cause, "errcode") && cause.errcode === sqliteBusy
        ? new DataDirInUse({ dataDir })
        : fail(cause)
  })
})
