import type { StoredFile } from "@bowline/domain/unstable/file/StoredFile"
import { Files } from "@bowline/runtime/unstable/file/Files"
import { create } from "content-disposition"
import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { parse } from "range-parser"
import * as Etag from "./Etag.ts"
import { Refused } from "./Refusals.ts"

/** What a browser may show that got the file from here. Anything else is saved: a page or a drawing in it would run as one of ours. */
const isShown = (type: string): boolean => /^image\/(png|jpeg|webp|gif)$/.test(type)

const headersOf = ({ media_type, name, sha256 }: StoredFile) => ({
  etag: `"${sha256}"`,
  "accept-ranges": "bytes",
  "content-disposition": create(name, { type: isShown(media_type) ? "inline" : "attachment" }),
  "x-content-type-options": "nosniff",
  "content-security-policy": "default-src 'none'; sandbox",
  "cross-origin-resource-policy": "same-origin",
  // A file that was deleted is shown to nobody.
  "cache-control": "private, no-cache"
})

/** The one part that is asked for. Several are answered with the whole, as a part of other bytes is. */
const partOf = ({ headers }: HttpServerRequest.HttpServerRequest, { bytes, sha256 }: StoredFile) => {
  const { "if-range": condition, range } = headers
  if (range === undefined || (condition !== undefined && condition !== `"${sha256}"`)) return undefined
  const { code, ranges, type } = parse(bytes, range)
  if (type !== "bytes" || ranges.length > 1 || (code & 1) === 1) return undefined
  return ranges[0] ?? "none"
}

/** Answers with the bytes of a file, or with the part of them that is asked for. */
export const make = Effect.map(Files, (files) => (request: HttpServerRequest.HttpServerRequest, file: StoredFile) => {
  const headers = headersOf(file)
  if (Etag.isKnown(request, headers.etag)) return Effect.succeed(HttpServerResponse.empty({ status: 304, headers }))
  const part = partOf(request, file)
  if (part === "none") {
    const detail = `The file has ${file.bytes} bytes`
    const headers = { "content-range": `bytes */${file.bytes}` }
    return Effect.fail(new Refused({ code: "range_not_satisfiable", detail, headers }))
  }
  const { end, start } = part ?? { start: 0, end: file.bytes - 1 }
  return Effect.succeed(
    HttpServerResponse.stream(files.content(file, { first: start, last: end }), {
      status: part === undefined ? 200 : 206,
      contentType: file.media_type.startsWith("text/") ? `${file.media_type}; charset=utf-8` : file.media_type,
      contentLength: end - start + 1,
      headers: part === undefined ? headers : { ...headers, "content-range": `bytes ${start}-${end}/${file.bytes}` }
    })
  )
})
