import { Effect } from "effect"
import type { HttpServerRequest } from "effect/http"
import { HttpServerResponse } from "effect/http"
import Negotiator from "negotiator"
import { readdir, readFile } from "node:fs/promises"
import { extname, join, relative, sep } from "node:path"
import * as Etag from "../http/Etag.ts"

/** Where the build of `apps/console` puts the page. */
const folder = join(import.meta.dirname, "../../console")

interface Content {
  readonly bytes: Uint8Array
  readonly etag: string
}

/** A file of the console in all its encodings. */
export interface ConsoleFile {
  readonly type: string
  readonly br: Content
  readonly gzip: Content
  readonly identity: Content
}

/** The best one first. */
const encodings = ["br", "gzip"] as const

const types: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml"
}

const readContent = async (path: string): Promise<Content> => {
  const bytes = await readFile(path)
  return { bytes, etag: Etag.of(bytes) }
}

const readOne = async (path: string): Promise<ConsoleFile> => {
  const [br, gzip, identity] = await Promise.all([
    readContent(`${path}.br`),
    readContent(`${path}.gz`),
    readContent(path)
  ])
  return { type: types[extname(path)] ?? "application/octet-stream", br, gzip, identity }
}

const listed = () =>
  readdir(folder, { recursive: true, withFileTypes: true }).catch((error: NodeJS.ErrnoException) =>
    error.code === "ENOENT" ? [] : Promise.reject(error)
  )

/** The files of the console by their paths in URLs, or none if it was never built. They are small, and are read once: no request reaches the disk. */
export const read: Effect.Effect<ReadonlyMap<string, ConsoleFile>> = Effect.promise(async () => {
  const paths = (await listed())
    .filter((entry) => entry.isFile() && !/\.(br|gz)$/.test(entry.name))
    .map(({ name, parentPath }) => join(parentPath, name))
  return new Map(
    await Promise.all(
      paths.map(async (path) => [`/${relative(folder, path).replaceAll(sep, "/")}`, await readOne(path)] as const)
    )
  )
})

/** Answers with a file in the best encoding that the client takes. */
export const respond = (
  request: HttpServerRequest.HttpServerRequest,
  file: ConsoleFile,
  { headers, status }: { readonly status: number; readonly headers: Readonly<Record<string, string>> }
): HttpServerResponse.HttpServerResponse => {
  const accepted = new Negotiator({ headers: request.headers }).encodings(Array.from(encodings))
  const encoding = encodings.find((encoding) => accepted.includes(encoding))
  const { bytes, etag } = file[encoding ?? "identity"]
  const all = { etag, ...headers, ...(encoding !== undefined && { "content-encoding": encoding }) }
  return Etag.isKnown(request, etag)
    ? HttpServerResponse.empty({ status: 304, headers: all })
    : HttpServerResponse.uint8Array(bytes, { status, contentType: file.type, headers: all })
}
