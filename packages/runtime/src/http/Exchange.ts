import { Http, ResponseTooLarge } from "@bowline/domain/peer/PeerError"
import { retryAfter } from "../provider/RetryAfter.ts"
import { Clock, Context, Duration, Effect, Option, Stream } from "effect"
import { HttpClientRequest, type HttpClient, type HttpClientError, type HttpClientResponse } from "effect/http"
import { ExchangeError, failure, fromTransport } from "./ExchangeError.ts"
import { Redaction } from "./Redaction.ts"

/** A whole answer, of whatever status. */
export interface Answer {
  readonly status: number
  readonly body: string
  readonly after: Option.Option<Duration.Duration>
}

/**
 * Called when the connection of a request is there, before its first byte leaves: it notes that the request leaves, or says no, and then the
 * request is dropped. A client that does not know when that is calls nothing.
 */
export const TryLeave = Context.Reference<(() => boolean) | undefined>("@bowline/runtime/http/TryLeave", {
  defaultValue: () => undefined
})

export const maxBytes = 8 * 1024 * 1024
const maxRedirects = 3

const tooLargeFor = (limit: number): ExchangeError => {
  const size = limit < maxBytes ? `${limit / 1024} KiB` : "8 MiB"
  return failure("garbled", new ResponseTooLarge({ message: `The answer of the peer is larger than ${size}` }))
}

export const tooLarge = tooLargeFor(maxBytes)

export const fromClient = ({ reason }: HttpClientError.HttpClientError): ExchangeError => fromTransport(reason.cause)

/** The body of an answer, up to a limit in bytes. It may come in single bytes: each piece is copied, since a piece that is kept costs a hundred times its size. */
export const textOf = (
  response: HttpClientResponse.HttpClientResponse,
  limit: number
): Effect.Effect<string, ExchangeError> =>
  Effect.suspend(() => {
    let bytes = new Uint8Array(16 * 1024)
    let length = 0
    return response.stream.pipe(
      Stream.mapError(fromClient),
      Stream.runForEach((chunk) => {
        const end = length + chunk.length
        if (end > limit) return Effect.fail(tooLargeFor(limit))
        if (end > bytes.length) {
          const larger = new Uint8Array(Math.max(end, 2 * bytes.length))
          larger.set(bytes.subarray(0, length))
          bytes = larger
        }
        bytes.set(chunk, length)
        length = end
        return Effect.void
      }),
      Effect.map(() => new TextDecoder().decode(bytes.subarray(0, length)))
    )
  })

/** The target of a redirect that is followed: the same origin, and a GET or a status that keeps the method. */
const redirection = (
  request: HttpClientRequest.HttpClientRequest,
  { status, headers }: HttpClientResponse.HttpClientResponse
): string | undefined => {
  const isRedirect = status === 307 || status === 308 || (request.method === "GET" && status >= 301 && status <= 303)
  const location = headers["location"]
  if (!isRedirect || location === undefined || !URL.canParse(location, request.url)) return undefined
  const target = new URL(location, request.url)
  return target.origin === new URL(request.url).origin ? target.href : undefined
}

/** Sends a request and gives the head of its answer. It follows redirects within the origin only. */
export const respond = Effect.fnUntraced(function* <R>(
  client: HttpClient.HttpClient.With<HttpClientError.HttpClientError, R>,
  request: HttpClientRequest.HttpClientRequest
): Effect.fn.Return<HttpClientResponse.HttpClientResponse, ExchangeError, R> {
  let url = request.url
  for (let redirects = 0; ; redirects++) {
    const current = HttpClientRequest.setUrl(request, url)
    const response = yield* Effect.mapError(client.execute(current), fromClient)
    const { status } = response
    if (status < 300 || status > 399 || status === 304) return response
    // A connection with an unread body cannot be used again.
    yield* textOf(response, maxBytes)
    const target = redirection(current, response)
    if (target === undefined || redirects === maxRedirects) {
      const message = `The peer answered ${status}, a redirect that is not followed`
      return yield* failure("refused", new Http({ message, status }))
    }
    url = target
  }
})

/** How long the server wants its client to wait: `Retry-After`, of a day at most. */
export const waitOf = (
  response: HttpClientResponse.HttpClientResponse
): Effect.Effect<Option.Option<Duration.Duration>> =>
  Effect.map(Clock.currentTimeMillis, (now) =>
    Option.map(Option.fromUndefinedOr(retryAfter(response.headers, now)), Duration.millis)
  )

/** Reads the whole answer, up to the limit in bytes, which is at most 8 MiB. */
export const answerOf = Effect.fnUntraced(function* (
  response: HttpClientResponse.HttpClientResponse,
  limit: number = maxBytes
): Effect.fn.Return<Answer, ExchangeError> {
  const body = yield* textOf(response, limit)
  return {
    status: response.status,
    body: new Redaction().addAuthorization(response.request.headers["authorization"]).body(body),
    after: yield* waitOf(response)
  }
})

/** Sends a request and reads the whole answer. */
export const exchange = (
  client: HttpClient.HttpClient,
  request: HttpClientRequest.HttpClientRequest,
  limit?: number
): Effect.Effect<Answer, ExchangeError> =>
  Effect.flatMap(respond(client, request), (response) => answerOf(response, limit))
