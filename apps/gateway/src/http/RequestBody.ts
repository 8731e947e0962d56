import { decodeJson } from "@bowline/protocol/api/Issues"
import { ByteSize, Effect, type Schema } from "effect"
import { HttpIncomingMessage, type HttpServerError, type HttpServerRequest } from "effect/http"
import { invalid, Refused } from "./Refusals.ts"

const isJson = (contentType: string | undefined): boolean =>
  contentType !== undefined && /^application\/(?:json|[\w.-]+\+json)\s*(?:;|$)/i.test(contentType)

const unsupported = (detail: string) => new Refused({ code: "unsupported_media_type", detail })

// The rest of the body is not read: the connection cannot be used again.
const tooLarge = (maxBody: number) =>
  new Refused({
    code: "payload_too_large",
    detail: `The body may have ${maxBody} bytes at most`,
    headers: { connection: "close" }
  })

const unreadable = (error: HttpServerError.HttpServerError, maxBody: number): Refused =>
  error.reason._tag === "RequestParseError" && error.reason.reason === "BodyTooLarge"
    ? tooLarge(maxBody)
    : invalid([{ path: "", message: "Expected a whole body" }])

/**
 * Reads the body of a request as JSON in UTF-8, as it was sent and as the schema has it, `maxBody` bytes at most. What is larger is refused by its length before it is
 * read, or as soon as it has been read so far.
 */
export const readSentJson = <A>(schema: Schema.ConstraintDecoder<A>, maxBody: number) => {
  const decode = decodeJson(schema)
  const limit = ByteSize.bytes(maxBody)
  const decodeText = Effect.fnUntraced(function* (bytes: ArrayBuffer) {
    const text = yield* Effect.try({
      try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes),
      catch: () => invalid([{ path: "", message: "Expected JSON in UTF-8" }])
    })
    return { text, value: yield* Effect.mapError(Effect.fromResult(decode(text)), invalid) }
  })
  return Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
    const { headers } = request
    if (!isJson(headers["content-type"])) return yield* unsupported("Expected Content-Type: application/json")
    if ((headers["content-encoding"] ?? "identity") !== "identity") {
      return yield* unsupported("Expected a body without a Content-Encoding")
    }
    if (Number(headers["content-length"]) > maxBody) return yield* tooLarge(maxBody)
    const bytes = yield* request.arrayBuffer.pipe(
      Effect.mapError((error) => unreadable(error, maxBody)),
      Effect.provideService(HttpIncomingMessage.MaxBodySize, limit)
    )
    return yield* decodeText(bytes)
  })
}

/** Reads the body of a request as the schema has it. */
export const readJson = <A>(schema: Schema.ConstraintDecoder<A>, maxBody: number) => {
  const read = readSentJson(schema, maxBody)
  return (request: HttpServerRequest.HttpServerRequest) => Effect.map(read(request), ({ value }) => value)
}
