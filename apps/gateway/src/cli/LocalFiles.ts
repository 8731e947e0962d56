import { Effect } from "effect"
import { appendFileSync, closeSync, existsSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { type Ended, failed, reasonOf } from "./Ended.ts"

const attempt = <A>(what: "read" | "write", path: string, act: () => A): Effect.Effect<A, Ended> =>
  Effect.try({ try: act, catch: (cause) => failed(`Cannot ${what} ${path}: ${reasonOf(cause)}`) })

/** The bytes of a file that somebody has named. */
export const readFile = (path: string): Effect.Effect<Buffer, Ended> => attempt("read", path, () => readFileSync(path))

export const readText = (path: string): Effect.Effect<string, Ended> =>
  Effect.map(readFile(path), (bytes) => bytes.toString("utf8"))

export const writeFile = (path: string, text: string): Effect.Effect<void, Ended> =>
  attempt("write", path, () => writeFileSync(path, text))

export const appendFile = (path: string, text: string): Effect.Effect<void, Ended> =>
  attempt("write", path, () => appendFileSync(path, text))

/** Fails where a file cannot be written, and leaves what is there as it is. */
export const expectWritable = (path: string): Effect.Effect<void, Ended> =>
  attempt("write", path, () => {
    const wasThere = existsSync(path)
    closeSync(openSync(path, "a"))
    if (!wasThere) rmSync(path)
  })
