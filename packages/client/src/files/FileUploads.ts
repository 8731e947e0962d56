import { type Bowline, createBowline as createPlain, type List, type PageQuery } from "../Bowline.ts"
import { errorOf } from "../BowlineError.ts"
import { systemClock } from "../Clock.ts"
import type { StoredFile } from "../FileWire.ts"
import { type BowlineOptions, fullJitter, makeRequests, pathOf, type Signal } from "../Requests.ts"

export type { StoredFile } from "../FileWire.ts"

/** What can be uploaded: a `Blob` or a `File`, a stream of bytes, or the path of a file, in Node.js, Bun and Deno. */
export type FileSource = Blob | ReadableStream<Uint8Array> | string

/** What is said of a file, and who hears how far it is. */
export interface UploadOptions extends Signal {
  /** Its name; that of a `File` or of a path is known. */
  readonly name?: string | undefined
  /** Its media type; that of a `Blob` is known. The gateway refuses one that its bytes contradict. */
  readonly type?: string | undefined
  /** Bytes that have been sent, and all of them: undefined of a stream. In a browser it is called at the end alone. */
  readonly onProgress?: ((sent: number, total: number | undefined) => void) | undefined
}

/** The files of a caller. */
export interface Files {
  /** Stores a file. One that the gateway has already is sent again, and is the same file. A stream is sent once; another source once more after a failure that may pass. */
  readonly upload: (source: FileSource, options?: UploadOptions) => Promise<StoredFile>
  readonly list: (
    query?: PageQuery,
    options?: Signal
  ) => List<StoredFile, { readonly files: ReadonlyArray<StoredFile>; readonly next_cursor: string | null }>
  readonly get: (fileId: string, options?: Signal) => Promise<StoredFile>
  /** Its bytes, as the answer of `fetch`. */
  readonly content: (fileId: string, options?: Signal) => Promise<Response>
  readonly delete: (fileId: string, options?: Signal) => Promise<void>
}

/** The client of one gateway, with the files of its caller. */
export interface FileBowline extends Bowline {
  readonly files: Files
}

/** Of Node.js, and of what takes after it. */
declare const process:
  | { readonly getBuiltinModule?: (name: string) => { readonly openAsBlob: (path: string) => Promise<Blob> } }
  | undefined

const openPath = (path: string): Promise<Blob> => {
  const fs = typeof process === "object" ? process.getBuiltinModule?.("node:fs") : undefined
  if (fs === undefined) throw errorOf("invalid_request", "A page has no files by their paths: give a Blob", false)
  return fs.openAsBlob(path)
}

/** A name in a header, as RFC 8187 writes it. */
const disposition = (name: string): string =>
  `attachment; filename*=UTF-8''${encodeURIComponent(name).replace(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`)}`

/** Browsers take streams as bodies over HTTP/2 alone. */
const isBrowser = "XMLHttpRequest" in globalThis

const counted = (bytes: ReadableStream<Uint8Array>, onBytes: (count: number) => void): ReadableStream<Uint8Array> =>
  bytes.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        controller.enqueue(chunk)
        onBytes(chunk.byteLength)
      }
    })
  )

const makeFiles = (options: BowlineOptions): Omit<Files, "content"> => {
  const system = { options, clock: systemClock, backoff: fullJitter(systemClock) }
  const { call, settings } = makeRequests(system)
  const nameOf = (source: FileSource): string | undefined =>
    typeof source === "string" ? source.split(/[/\\]/).at(-1) : "name" in source ? String(source.name) : undefined

  const upload: Files["upload"] = async (source, { name = nameOf(source), onProgress, signal, type } = {}) => {
    const content = typeof source === "string" ? await openPath(source) : source
    const total = content instanceof Blob ? content.size : undefined
    let isSent = false
    const body = (): Blob | ReadableStream<Uint8Array> => {
      if (content instanceof Blob && (isBrowser || onProgress === undefined)) return content
      if (isSent && total === undefined) throw errorOf("incomplete", "The stream was sent in part", false)
      isSent = true
      let sent = 0
      return counted(content instanceof Blob ? content.stream() : content, (count) =>
        onProgress?.((sent += count), total)
      )
    }
    const fetching: typeof fetch = async (url, init) => {
      const given = body()
      const streams = given instanceof ReadableStream && { duplex: "half" as const }
      return (options.fetch ?? fetch)(url, { ...init, body: given, ...streams })
    }
    const requests = makeRequests({ ...system, options: { ...options, fetch: fetching } })
    const headers = {
      "content-type":
        type ?? (content instanceof Blob && content.type !== "" ? content.type : "application/octet-stream"),
      ...(name !== undefined && { "content-disposition": disposition(name) })
    }
    const request = { method: "POST", path: "/files", headers }
    const stored = await requests.call<StoredFile>(request, { signal }, settings.giveUpAfterMs)
    if (isBrowser) onProgress?.(stored.bytes, total)
    return stored
  }

  return {
    upload,
    list: (query = {}, given) => {
      const page = (cursor = query.cursor, own: Signal | undefined = given) =>
        call<{ readonly files: ReadonlyArray<StoredFile>; readonly next_cursor: string | null }>(
          { method: "GET", path: "/files", query: { ...query, cursor } },
          own
        )
      async function* entries(): AsyncGenerator<StoredFile, undefined, undefined> {
        let cursor: string | undefined
        do {
          const { files, next_cursor } = await page(cursor)
          yield* files
          cursor = next_cursor ?? undefined
        } while (cursor !== undefined)
      }
      return { page, [Symbol.asyncIterator]: entries }
    },
    get: (fileId, given) => call({ method: "GET", path: pathOf("files", fileId) }, given),
    delete: (fileId, given) => call({ method: "DELETE", path: pathOf("files", fileId) }, given)
  }
}

/**
 * As `createBowline` of the main entry, for a client that also has the files of its caller.
 *
 * @example
 * ```ts
 * import { createBowline } from "@bowline/client/files"
 *
 * const bowline = createBowline({ baseUrl: "http://127.0.0.1:3774" })
 *
 * export const keep = async (picture: Blob, signal: AbortSignal) => {
 *   const { file_id } = await bowline.files.upload(picture, { name: "picture.png", signal, onProgress: console.log })
 *   return file_id
 * }
 * ```
 */
export const createBowline = (options: BowlineOptions): FileBowline => {
  const plain = createPlain(options)
  return { ...plain, files: { ...plain.files, ...makeFiles(options) } }
}
