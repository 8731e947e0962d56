import { decodeJson } from "@bowline/protocol/unstable/api/Issues"
import { ByteSize, Effect, Schema } from "effect"
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

const expectJson = ({ headers }: HttpServerRequest.HttpServerRequest) => {
  if (!isJson(headers["content-type"])) return Effect.fail(unsupported("Expected Content-Type: application/json"))
  return (headers["content-encoding"] ?? "identity") === "identity"
    ? Effect.void
    : Effect.fail(unsupported("Expected a body without a Content-Encoding"))
}

const readBytes = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, maxBody: number) {
  if (Number(request.headers["content-length"]) > maxBody) return yield* tooLarge(maxBody)
  return yield* request.arrayBuffer.pipe(
    Effect.mapError((error) => unreadable(error, maxBody)),
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(maxBody))
  )
})

/** Bodies with more bytes take some ten milliseconds to decode, and as long for what is done with them. */
const maxInOneTurn = 262_144

/** Lets others run. Behind an answer of the network, a single yield may end in the same turn of the event loop. */
const nextTurn = Effect.andThen(Effect.yieldNow, Effect.yieldNow)

const textDecoder = <A>(schema: Schema.ConstraintDecoder<A>, texts?: "any") => {
  const decode = decodeJson(schema, texts)
  return Effect.fnUntraced(function* (bytes: ArrayBuffer) {
    const text = yield* Effect.try({
      try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes),
      catch: () => invalid([{ path: "", message: "Expected JSON in UTF-8" }])
    })
    const decoded = yield* Effect.mapError(Effect.fromResult(decode(text)), invalid)
    if (bytes.byteLength > maxInOneTurn) yield* nextTurn
    return decoded
  })
}

const reader = <A>(decodeText: ReturnType<typeof textDecoder<A>>, maxBody: number) => {
  return (request: HttpServerRequest.HttpServerRequest) =>
    expectJson(request).pipe(Effect.andThen(readBytes(request, maxBody)), Effect.flatMap(decodeText))
}

/**
 * Reads the body of a request as JSON in UTF-8, as it was `sent` and as the schema has its `value`, `maxBody` bytes at most. What is larger is refused by its length before it is
 * read, or as soon as it has been read so far.
 */
export const readSentJson = <A>(schema: Schema.ConstraintDecoder<A>, maxBody: number) =>
  reader(textDecoder(schema), maxBody)

/** The same of another protocol, whose clients may cut characters in two: models and the database get whole ones. */
export const readForeignJson = <A>(schema: Schema.ConstraintDecoder<A>, maxBody: number) =>
  reader(textDecoder(schema, "any"), maxBody)

/** Reads the body of a request as the schema has it. */
export const readJson = <A>(schema: Schema.ConstraintDecoder<A>, maxBody: number) => {
  const read = readSentJson(schema, maxBody)
  return (request: HttpServerRequest.HttpServerRequest) => Effect.map(read(request), ({ value }) => value)
}

const decodeNothing = textDecoder(Schema.Record(Schema.String, Schema.Never.annotate({ message: "Unknown field" })))

/** Reads the body of a request that needs none: what there is has to be an object without fields. */
export const readNothing = (maxBody: number) =>
  Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
    const bytes = yield* readBytes(request, maxBody)
    if (bytes.byteLength === 0) return
    yield* expectJson(request)
    yield* decodeNothing(bytes)
  })
