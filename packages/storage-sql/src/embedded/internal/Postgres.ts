import type { PGliteOptions } from "@electric-sql/pglite"
import { setFlagsFromString } from "node:v8"

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
export const describe = (cause: unknown): unknown =>
  cause instanceof Error || typeof cause !== "object" || cause === null || !("errno" in cause)
    ? cause
    : new Error(wasi.get(cause.errno) ?? `The file system failed with ${String(cause.errno)}`)

/**
 * PGlite has one session; by default Postgres reserves, and soon touches, 128 MB of buffers for a hundred. A vacuum of many files writes a log of
 * some hundred MB, of which Postgres would keep up to 1 GB to use it again.
 */
const settings = ["shared_buffers=16MB", "wal_buffers=512kB", "max_wal_size=96MB", "max_connections=5"]

/** A Postgres in this thread. */
export const start = async (options: PGliteOptions) => {
  // V8 takes 575 MB to optimize one function of Postgres, its parser. Only both flags together count for a process that runs.
  setFlagsFromString("--no-wasm-tier-up")
  setFlagsFromString("--no-wasm-dynamic-tiering")
  const { PGlite } = await import("@electric-sql/pglite")
  const startParams = [...PGlite.defaultStartParams, ...settings.flatMap((setting) => ["-c", setting])]
  return PGlite.create({ ...options, startParams })
}
