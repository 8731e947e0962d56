import { ProviderError, type ProviderErrorReason, StreamCorrupt, Unknown } from "@bowline/domain/provider/ProviderError"
import { Provider, type ProviderPart, type ProviderRequest } from "@bowline/runtime/provider/Provider"
import { Array, Cause, Clock, Effect, Layer, Pull, Redacted, Result, Stream } from "effect"
import { HttpClient, type HttpClientError, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { classify, classifyTransport } from "@bowline/runtime/provider/Classification"
import { toChatRequest } from "./internal/ChatRequest.ts"
import { ChatStream } from "./internal/ChatStream.ts"
import * as FailureBody from "@bowline/runtime/provider/FailureBody"

/** A server of OpenAI's Chat Completions, or of a copy of them. */
export interface OpenAiChatOptions {
  /** What stands in front of the model in `provider/model`: `openai`, unless it is given. */
  readonly name?: string
  /** With `/v1`, or what the server has in its place. A query is kept. */
  readonly baseUrl: string
  /** A server of one's own may need none. */
  readonly apiKey?: Redacted.Redacted
  readonly headers?: Readonly<Record<string, string>>
}

/** How long the usage may come behind the finish reason: without it the answer is as whole. */
const usageGrace = "1 second"

/** How long the end of the body may come behind the last event: read to its end, the connection serves again. */
const endGrace = "100 millis"

/** Bytes of a failure that are read. */
const maxFailure = 64 * 1_024

/**
 * OpenAI's Chat Completions behind the provider port: one request an attempt, no retry, no redirect, no timer of an answer
 * that is not finished. The client must not retry either.
 */
export const layer = (options: OpenAiChatOptions): Layer.Layer<Provider, never, HttpClient.HttpClient> =>
  Layer.effect(Provider, make(options))

const make = Effect.fnUntraced(function* (options: OpenAiChatOptions) {
  const client = HttpClient.withScope(yield* HttpClient.HttpClient)
  const post = endpoint(options)
  const cleaned = FailureBody.cleaned([
    ...(options.apiKey === undefined ? [] : [Redacted.value(options.apiKey)]),
    ...Object.values(options.headers ?? {})
  ])

  const attempt = Effect.fnUntraced(function* (request: ProviderRequest) {
    const body = JSON.stringify(toChatRequest(request))
    const response = yield* Effect.mapError(
      client.execute(HttpClientRequest.bodyText(post, body, "application/json")),
      connectionFailure
    )
    const clock = yield* Clock.Clock
    const failureOf = (body: FailureBody.FailureBody) =>
      classify(response, cleaned(body), clock.currentTimeMillisUnsafe())
    if (!isEventStream(response)) return yield* refusal(response, failureOf)
    const answer = new ChatStream((error) => failureOf(FailureBody.fromJson(error)))
    return Stream.transformPull(response.stream, (pull) => Effect.succeed(read(pull, answer)))
  })

  return Provider.of({
    name: options.name ?? "openai",
    stream: (request) => Stream.mapError(Stream.unwrap(attempt(request)), (reason) => new ProviderError({ reason }))
  })
})

const endpoint = ({ baseUrl, apiKey, headers }: OpenAiChatOptions): HttpClientRequest.HttpClientRequest => {
  const url = new URL(baseUrl)
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/chat/completions`
  const post = HttpClientRequest.post(url, { accept: "text/event-stream" }).pipe(
    apiKey === undefined ? (request) => request : HttpClientRequest.bearerToken(apiKey)
  )
  return HttpClientRequest.setHeaders(post, headers ?? {})
}

const connectionFailure = ({ reason }: HttpClientError.HttpClientError): ProviderErrorReason =>
  reason._tag === "TransportError"
    ? classifyTransport(reason.cause, false)
    : new Unknown({ message: "The request could not be made" })

const isEventStream = ({ status, headers }: HttpClientResponse.HttpClientResponse): boolean =>
  status >= 200 &&
  status < 300 &&
  (headers["content-type"] ?? "text/event-stream").toLowerCase().startsWith("text/event-stream")

/** Reads no further than it has to, and fails. */
const refusal = Effect.fnUntraced(function* (
  { status, stream }: HttpClientResponse.HttpClientResponse,
  failureOf: (body: FailureBody.FailureBody) => ProviderErrorReason
) {
  let size = 0
  const body = yield* stream.pipe(
    Stream.takeUntil((chunk) => (size += chunk.length) >= maxFailure),
    Stream.decodeText(),
    Stream.mkString,
    Effect.orElseSucceed(() => "")
  )
  const reason = failureOf(FailureBody.fromText(body))
  return yield* Effect.fail(
    status < 300 && reason._tag === "unknown"
      ? new StreamCorrupt({ message: "The provider answered with something else than an event stream", status })
      : reason
  )
})

type Parts = Pull.Pull<Array.NonEmptyReadonlyArray<ProviderPart>, ProviderErrorReason>

const read = (
  bytes: Pull.Pull<Array.NonEmptyReadonlyArray<Uint8Array>, HttpClientError.HttpClientError>,
  answer: ChatStream
): Parts => {
  let ended = false

  const give = (parts: ReadonlyArray<ProviderPart>): Parts =>
    Array.isReadonlyArrayNonEmpty(parts) ? Effect.succeed(parts) : next

  const end = (lost?: ProviderErrorReason): Parts => {
    ended = true
    return give(answer.end(lost))
  }

  const next: Parts = Effect.suspend(() => {
    if (answer.failure !== undefined) return Effect.fail(answer.failure)
    if (ended) return Cause.done()
    return Pull.matchEffect(within(bytes), {
      onSuccess: (chunks) => give(answer.feed(chunks)),
      onFailure: (cause) => {
        const error = Cause.findError(cause)
        return Result.isFailure(error)
          ? Effect.failCause(error.failure)
          : end(classifyTransport(error.success.reason.cause, true))
      },
      onDone: () => end()
    })
  })

  const within = (pull: typeof bytes): typeof bytes =>
    answer.isFinished || answer.isOver
      ? Effect.timeoutOrElse(pull, { duration: answer.isOver ? endGrace : usageGrace, orElse: () => Cause.done() })
      : pull

  return next
}
