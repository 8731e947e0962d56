// Writes the folder of a new embedded database, packed, to the file that it is given. Its files are the same at every run. With a second argument, Brotli's
// quality from 0 to 11, it is packed faster.
import { PGlite } from "@electric-sql/pglite"
import crypto from "node:crypto"
import { writeFileSync } from "node:fs"
import { brotliCompressSync, constants } from "node:zlib"

// Postgres writes the time into its log, and random bytes into its control file.
Date.now = () => Date.UTC(2026, 0, 1)
crypto.randomFillSync = (view) => {
  if (ArrayBuffer.isView(view)) new Uint8Array(view.buffer, view.byteOffset, view.byteLength).fill(0)
  return view
}

const db = await PGlite.create("memory://", { startParams: [...PGlite.defaultStartParams, "-c", "wal_recycle=off"] })
for (const statement of [
  // Nobody creates databases here, and the templates are two thirds of all files.
  "update pg_database set datistemplate = false",
  "drop database template0",
  "drop database template1",
  // What is only for people, and statistics about tables of Postgres itself: a third of the packed folder.
  "set allow_system_table_mods = on",
  "delete from pg_description",
  "delete from pg_statistic",
  "drop schema information_schema cascade",
  "vacuum full",
  "vacuum freeze",
  // The checkpoint then removes the log of all this.
  "select pg_switch_wal()",
  "checkpoint"
]) {
  await db.exec(statement)
}
const folder = await db.dumpDataDir("none")
const quality = Number(process.argv[3] ?? constants.BROTLI_MAX_QUALITY)
const params = {
  [constants.BROTLI_PARAM_QUALITY]: quality,
  [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS
}
writeFileSync(process.argv[2] ?? "", brotliCompressSync(await folder.arrayBuffer(), { params }))
await db.close()
