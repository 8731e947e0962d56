import { Http, ResponseTooLarge } from "@bowline/domain/peer/PeerError"
import { Clock, Effect, Stream } from "effect"
import { HttpClientRequest, type HttpClient, type HttpClientError, type HttpClientResponse } from "effect/http"
import { ExchangeError, failure, fromTransport, retryAfter } from "./ExchangeError.ts"
import type { Duration, Option } from "effect"

/** A whole answer, of whatever status. */
export interface Answer {
  readonly status: number
  readonly body: string
  readonly after: Option.Option<Duration.Duration>
}

const maxBytes = 8 * 1024 * 1024
const maxRedirects = 3

/** A shorter token would be found in innocent words. */
const minSecret = 4

const tooLarge = failure("garbled", new ResponseTooLarge({ message: "The answer of the peer is larger than 8 MiB" }))

const fromClient = ({ reason }: HttpClientError.HttpClientError): ExchangeError => fromTransport(reason.cause)

const readBody = (response: HttpClientResponse.HttpClientResponse): Effect.Effect<string, ExchangeError> =>
  response.stream.pipe(
    Stream.mapError(fromClient),
    Stream.mapAccumEffect(
      () => 0,
      (total, chunk) => {
        const next = total + chunk.length
        return next > maxBytes ? Effect.fail(tooLarge) : Effect.succeed([next, [chunk]] as const)
      }
    ),
    Stream.mkUint8Array,
    Effect.map((bytes) => new TextDecoder().decode(bytes))
  )

/** A peer may repeat what it was asked with: its token must not get into frames and tables. */
const withoutToken = (body: string, authorization: string | undefined): string => {
  const token = authorization?.replace(/^Bearer /, "") ?? ""
  return token.length < minSecret ? body : body.replaceAll(token, "[redacted]")
}

/** Where to ask instead. Only a GET, and what keeps the method, can be asked again; only the same origin is asked. */
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

/** Sends a request and reads the whole answer, 8 MiB at most. Redirects are followed within the origin only. */
export const exchange = Effect.fnUntraced(function* (
  client: HttpClient.HttpClient,
  request: HttpClientRequest.HttpClientRequest
): Effect.fn.Return<Answer, ExchangeError> {
  let url = request.url
  for (let redirects = 0; ; redirects++) {
    const current = HttpClientRequest.setUrl(request, url)
    const response = yield* Effect.mapError(client.execute(current), fromClient)
    // Read even when it is not wanted: a connection with an unread body can't be used again.
    const body = yield* readBody(response)
    const { status, headers } = response
    const target = redirection(current, response)
    if (target === undefined || redirects === maxRedirects) {
      if (status >= 300 && status < 400) {
        const message = `The peer answered ${status}, a redirect that is not followed`
        return yield* failure("refused", new Http({ message, status }))
      }
      return {
        status,
        body: withoutToken(body, request.headers["authorization"]),
        after: retryAfter(headers["retry-after"], yield* Clock.currentTimeMillis)
      }
    }
    url = target
  }
})
