import { ProviderError, type ProviderErrorReason, StreamCorrupt, Unknown } from "@bowline/domain/provider/ProviderError"
import { Array, Cause, Clock, Context, Effect, Pull, Result, type Scope, Stream } from "effect"
import { HttpClient, type HttpClientError, HttpClientRequest, type HttpClientResponse, UrlParams } from "effect/http"
import * as Monotonic from "../process/Monotonic.ts"
import type { AnswerStream } from "./AnswerStream.ts"
import { classify, classifyTransport } from "./Classification.ts"
import { createHmac } from "node:crypto"
import * as FailureBody from "./FailureBody.ts"
import type { Provider, ProviderPart, ProviderRequest } from "./Provider.ts"

/** A wire over HTTP: the request is JSON, the answer an event stream. */
export interface HttpWire {
  readonly post: HttpClientRequest.HttpClientRequest
  /** Texts that no message of a failure may show. */
  readonly secrets: ReadonlyArray<string>
  readonly toBody: (request: ProviderRequest) => object
  readonly answer: new (failureOf: (error: unknown) => ProviderErrorReason) => AnswerStream
}

/** The head of an answer, and its body as it comes. */
export type Head = Pick<HttpClientResponse.HttpClientResponse, "status" | "headers" | "stream">

/** Sends a request, which ends with the scope, and waits for the head of its answer. */
export type Send = (
  request: HttpClientRequest.HttpClientRequest
) => Effect.Effect<Head, HttpClientError.HttpClientError, Scope.Scope>

/** How attempts send their requests: with the `HttpClient` of their adapter, unless the app has something that costs less. */
export const Sender = Context.Reference<Send | undefined>("@bowline/runtime/provider/HttpAttempt/Sender", {
  defaultValue: () => undefined
})

/**
 * What closes the connections of a plan's attempts. A plan that ends calls it at once, and interrupts its fibers a little later: until then
 * they wait for an answer that does not come any more.
 */
export const Connections = Context.Reference<Set<() => void> | undefined>(
  "@bowline/runtime/provider/HttpAttempt/Connections",
  {
    defaultValue: () => undefined
  }
)

/** Milliseconds to wait for the usage after the finish reason. The answer is whole without it. */
const usageGrace = 1_000

/** Milliseconds to wait for the end of the body after the last event: a connection that is read to its end can be reused. */
const endGrace = 100

/** Bytes to read of a failure's body. */
const maxFailure = 64 * 1_024
const failureTimeout = "1 second"

/** Appends the path to that of the base URL, and keeps the query. Throws if it is no http or https URL. */
export const endpoint = (baseUrl: string, path: string): URL => {
  const url = URL.parse(baseUrl)
  // The URL is not shown: a key may stand in it.
  if (url === null || !/^https?:$/.test(url.protocol)) throw new TypeError("baseUrl: Expected an http or https URL")
  url.pathname = url.pathname.replace(/\/+$/, "") + path
  return url
}

/** The host and the port of a base URL. */
export const serverOf = (baseUrl: string): NonNullable<Provider["Service"]["server"]> => {
  const { hostname, port, protocol } = new URL(baseUrl)
  return {
    address: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? (protocol === "http:" ? 80 : 443) : Number(port)
  }
}

/**
 * One request for each attempt. It does not retry, follows no redirect, and has no timer before the answer is finished. The
 * client must not retry either.
 */
export const make = Effect.fnUntraced(function* (wire: HttpWire) {
  const send = (yield* Sender) ?? HttpClient.withScope(yield* HttpClient.HttpClient).execute
  const post = HttpClientRequest.accept(wire.post, "text/event-stream")
  const cleaned = FailureBody.cleaned(wire.secrets)

  const attempt = Effect.fnUntraced(function* (request: ProviderRequest) {
    const body = JSON.stringify(wire.toBody(request))
    const response = yield* send(HttpClientRequest.bodyText(post, body, "application/json")).pipe(
      // A key may stand in the query of the base URL.
      Effect.provideService(UrlParams.CurrentRedactedNames, [/./]),
      Effect.mapError(connectionFailure)
    )
    const clock = yield* Clock.Clock
    const failureOf = (body: FailureBody.FailureBody) =>
      classify(response, cleaned(body), clock.currentTimeMillisUnsafe())
    if (!isEventStream(response)) return yield* refusal(response, failureOf)
    const answer = new wire.answer((error) => failureOf(FailureBody.fromJson(error)))
    return Stream.transformPull(response.stream, (pull) => Effect.succeed(read(pull, answer, clock)))
  })

  return {
    keyDigest: (salt: string) => createHmac("sha256", JSON.stringify(wire.secrets)).update(salt).digest("base64url"),
    stream: (request) => Stream.unwrap(Effect.mapError(attempt(request), toError))
  } satisfies Partial<Provider["Service"]>
})

const toError = (reason: ProviderErrorReason) => new ProviderError({ reason })

const connectionFailure = ({ reason }: HttpClientError.HttpClientError): ProviderErrorReason =>
  reason._tag === "TransportError"
    ? classifyTransport(reason.cause, false)
    : new Unknown({ message: "The request could not be made" })

const isEventStream = ({ status, headers }: Head): boolean =>
  status >= 200 &&
  status < 300 &&
  (headers["content-type"] ?? "text/event-stream").toLowerCase().startsWith("text/event-stream")

/** Fails with what the status and the body say. Reads 64 KiB of the body at most, and for 1 s at most. */
const refusal = Effect.fnUntraced(function* (
  { status, stream }: Head,
  failureOf: (body: FailureBody.FailureBody) => ProviderErrorReason
) {
  let size = 0
  let body = ""
  yield* stream.pipe(
    Stream.takeUntil((chunk) => (size += chunk.length) >= maxFailure),
    Stream.decodeText(),
    Stream.runForEach((text) => Effect.sync(() => void (body += text))),
    Effect.timeoutOption(failureTimeout),
    Effect.ignore
  )
  const reason = failureOf(status < 400 ? FailureBody.fromJsonError(body) : FailureBody.fromText(body))
  return yield* Effect.fail(
    status < 300 && reason._tag === "unknown"
      ? new StreamCorrupt({ message: "The provider answered with something else than an event stream", status })
      : reason
  )
})

type Bytes = Pull.Pull<Array.NonEmptyReadonlyArray<Uint8Array>, HttpClientError.HttpClientError>
type Parts = Pull.Pull<Array.NonEmptyReadonlyArray<ProviderPart>, ProviderError>

const read = (bytes: Bytes, answer: AnswerStream, clock: Clock.Clock): Parts => {
  let ended = false
  /** Milliseconds left to wait. Bytes that come meanwhile do not prolong it, and a slow consumer does not shorten it. */
  const left = { usage: usageGrace, end: endGrace }

  const give = (parts: ReadonlyArray<ProviderPart>): Parts =>
    Array.isReadonlyArrayNonEmpty(parts) ? Effect.succeed(parts) : next

  const heard = (parts: ReadonlyArray<ProviderPart>): Parts =>
    Array.isReadonlyArrayNonEmpty(parts) || answer.failure !== undefined || answer.isFinished
      ? give(parts)
      : Effect.succeed([{ _tag: "Heard" }])

  const end = (lost?: ProviderErrorReason): Parts => {
    ended = true
    return give(answer.end(lost))
  }

  const next: Parts = Effect.suspend(() => {
    if (answer.failure !== undefined) return Effect.fail(toError(answer.failure))
    if (ended) return Cause.done()
    if (!answer.isFinished) return pull(bytes)
    const grace = answer.isOver ? "end" : "usage"
    if (left[grace] <= 0) return end()
    const since = Monotonic.millis(clock)
    return pull(
      Effect.timeoutOrElse(bytes, { duration: left[grace], orElse: () => Cause.done() }).pipe(
        Effect.tap(() => Effect.sync(() => void (left[grace] -= Monotonic.millis(clock) - since)))
      )
    )
  })

  const pull = (bytes: Bytes): Parts =>
    Pull.matchEffect(bytes, {
      onSuccess: (chunks) => heard(answer.feed(chunks)),
      onFailure: (cause) => {
        const error = Cause.findError(cause)
        return Result.isFailure(error)
          ? Effect.failCause(error.failure)
          : end(classifyTransport(error.success.reason.cause, true))
      },
      onDone: () => end()
    })

  return next
}
