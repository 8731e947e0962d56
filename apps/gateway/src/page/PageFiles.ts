import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import Negotiator from "negotiator"
import { existsSync } from "node:fs"
import { readdir, readFile } from "node:fs/promises"
import { extname, join, relative, sep } from "node:path"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import * as Etag from "../http/Etag.ts"

/** Where the builds of `apps/console` and `apps/docs` put their files. */
const built = join(import.meta.dirname, "../..")

interface Content {
  readonly bytes: Uint8Array
  readonly etag: string
}

/** A file in all encodings that its build has made. */
export interface PageFile {
  readonly type: string
  readonly br?: Content
  readonly gzip?: Content
  readonly identity: Content
}

/** What every page of ours is allowed: its own files, and nothing of anybody else. */
const secure = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin"
}

/** A page names the assets of its own build, so it is asked for every time. */
export const ofPage = { ...secure, "cache-control": "no-cache", vary: "Accept-Encoding" }
/** Assets have the hash of their content in their names. */
export const ofAsset = { ...secure, "cache-control": "public, max-age=31536000, immutable", vary: "Accept-Encoding" }

/** The best one first. */
const encodings = ["br", "gzip"] as const

const types: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".md": "text/markdown; charset=utf-8",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8"
}

const readContent = async (path: string): Promise<Content> => {
  const bytes = await readFile(path)
  return { bytes, etag: Etag.of(bytes) }
}

const readOne = async (path: string, isPacked: boolean): Promise<PageFile> => {
  const type = types[extname(path)] ?? "application/octet-stream"
  if (!isPacked) return { type, identity: await readContent(path) }
  const [identity, br, gzip] = await Promise.all([
    readContent(path),
    readContent(`${path}.br`),
    readContent(`${path}.gz`)
  ])
  return { type, identity, br, gzip }
}

const list = (folder: string) =>
  readdir(folder, { recursive: true, withFileTypes: true }).catch((error: NodeJS.ErrnoException) =>
    error.code === "ENOENT" ? [] : Promise.reject(error)
  )

/** Whether a build was ever made. */
export const isBuilt = (name: "console" | "docs"): boolean => existsSync(join(built, name, "index.html"))

/** The files of a build by their paths in it, or none if it was never made. They are small, and are read once: no request reaches the disk. */
export const read = (name: "console" | "docs"): Effect.Effect<ReadonlyMap<string, PageFile>> =>
  Effect.promise(async () => {
    const folder = join(built, name)
    const all = new Set(
      (await list(folder)).filter((entry) => entry.isFile()).map(({ name, parentPath }) => join(parentPath, name))
    )
    const paths = Array.from(all).filter((path) => !/\.(br|gz)$/.test(path))
    return new Map(
      await Promise.all(
        paths.map(
          async (path) =>
            [`/${relative(folder, path).replaceAll(sep, "/")}`, await readOne(path, all.has(`${path}.br`))] as const
        )
      )
    )
  })

const gzipped = promisify(gzip)

/** A text with its gzip, which its build may have left out to keep the package small. */
export const compress = (file: PageFile): Effect.Effect<PageFile> =>
  file.gzip !== undefined || !/^text\/|\+xml$/.test(file.type)
    ? Effect.succeed(file)
    : Effect.map(
        Effect.promise(() => gzipped(file.identity.bytes)),
        (bytes) => ({ ...file, gzip: { bytes, etag: Etag.of(bytes) } })
      )

/** Answers with a file in the best encoding that the client takes. */
export const respond = (
  request: HttpServerRequest.HttpServerRequest,
  file: PageFile,
  { headers, status }: { readonly status: number; readonly headers: Readonly<Record<string, string>> }
): HttpServerResponse.HttpServerResponse => {
  const accepted = new Negotiator({ headers: request.headers }).encodings(Array.from(encodings))
  const encoding = encodings.find((encoding) => file[encoding] !== undefined && accepted.includes(encoding))
  const { bytes, etag } = (encoding && file[encoding]) ?? file.identity
  const all = { etag, ...headers, ...(encoding !== undefined && { "content-encoding": encoding }) }
  return Etag.isKnown(request, etag)
    ? HttpServerResponse.empty({ status: 304, headers: all })
    : HttpServerResponse.uint8Array(bytes, { status, contentType: file.type, headers: all })
}
