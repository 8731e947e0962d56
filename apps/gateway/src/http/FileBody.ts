import type { Upload } from "@bowline/runtime/unstable/file/Files"
import { parse } from "content-disposition"
import { ByteSize, Effect, Stream } from "effect"
import { HttpIncomingMessage, type HttpServerRequest, Multipart } from "effect/http"
import { isUtf8 } from "node:buffer"
import { invalid, Refused } from "./Refusals.ts"
import { collected, owned } from "./YoungCollections.ts"

/** What a form may have besides its file, in bytes: the heads of its parts, and other fields. */
const formBytes = 65_536

const tooLarge = (maxFile: number) =>
  new Refused({
    code: "payload_too_large",
    detail: `A file may have ${maxFile} bytes at most`,
    // The rest of the body is not read: the connection cannot be used again.
    headers: { connection: "close" }
  })

const notWhole = invalid([{ path: "", message: "Expected a whole body" }])
const oneFile = invalid([{ path: "file", message: "Expected a form with one file, in the field `file`" }])

/** Node.js reads the bytes of a header as Latin-1, and clients write names in UTF-8. */
const headerText = (header: string): string => {
  const bytes = Buffer.from(header, "latin1")
  return isUtf8(bytes) ? bytes.toString("utf8") : header
}

type Sent = Pick<Upload<Refused>, "content" | "said">

const fromBody = (request: HttpServerRequest.HttpServerRequest): Sent => {
  const { "content-disposition": disposition = "", "content-type": type = "" } = request.headers
  const name = parse(headerText(disposition)).parameters["filename"]
  return { said: () => ({ name, type }), content: collected(owned(Stream.mapError(request.stream, () => notWhole))) }
}

/** The one file of a form, and its `purpose`. Its other fields say nothing here. */
const fromForm = (request: HttpServerRequest.HttpServerRequest, maxFile: number): Sent => {
  let said: ReturnType<Sent["said"]> | undefined
  let purpose: string | undefined
  const refuse = ({ reason }: Multipart.MultipartError) =>
    reason._tag === "FileTooLarge" || reason._tag === "BodyTooLarge" ? tooLarge(maxFile) : notWhole
  const content = request.multipartStream.pipe(
    Stream.flatMap((part): Stream.Stream<Uint8Array, Multipart.MultipartError | Refused> => {
      if (part._tag === "Field") {
        if (part.key === "purpose") purpose = part.value
        return Stream.empty
      }
      if (part.key !== "file" || said !== undefined) return Stream.fail(oneFile)
      said = { name: part.name, type: part.contentType }
      return part.content
    }),
    Stream.mapError((error) => (error._tag === "MultipartError" ? refuse(error) : error)),
    Stream.concat(Stream.suspend(() => (said === undefined ? Stream.fail(oneFile) : Stream.empty)))
  )
  return { content: collected(content), said: () => ({ name: undefined, type: "", ...said, purpose }) }
}

/**
 * Reads a file out of a request, while it comes: the body is the file, or a form that has it. `use` takes it in.
 */
export const readFile = Effect.fnUntraced(function* <A, E, R>(
  request: HttpServerRequest.HttpServerRequest,
  maxFile: number,
  use: (sent: Sent) => Effect.Effect<A, E, R>
) {
  const {
    "content-encoding": encoding = "identity",
    "content-length": length,
    "content-type": type = ""
  } = request.headers
  const isForm = /^multipart\/form-data\s*(;|$)/i.test(type)
  const maxBody = isForm ? maxFile + formBytes : maxFile
  if (encoding !== "identity") {
    const detail = "Expected a body without a Content-Encoding"
    return yield* new Refused({ code: "unsupported_media_type", detail })
  }
  if (Number(length) > maxBody) return yield* tooLarge(maxFile)
  return yield* use(isForm ? fromForm(request, maxFile) : fromBody(request)).pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(maxBody)),
    Effect.provideService(Multipart.MaxFieldSize, ByteSize.bytes(formBytes)),
    Effect.provideService(Multipart.MaxParts, 16)
  )
})
