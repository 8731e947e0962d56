import { Unreachable } from "@bowline/domain/peer/PeerError"
import type { PeerAuth } from "@bowline/runtime/unstable/auth/PeerAuth"
import { fromClient, respond } from "@bowline/runtime/unstable/http/Exchange"
import { failure, type ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import type { FetchLike } from "@modelcontextprotocol/client"
import { Effect, Exit, Option, Schema, Scope, Stream } from "effect"
import { HttpBody, HttpClient, HttpClientRequest, type HttpMethod } from "effect/http"
import { limited } from "./MessageLimit.ts"

/** Names the call that a request belongs to. */
const callHeader = "idempotency-key"

/** Names what the gateway has asked of the protocol's client, and for which it makes the request. The server does not get it. */
const askHeader = "bowline-ask"

/** How long a cancel may take: nobody waits for it. */
const cancelTimeout = "5 seconds"

const cancels: ReadonlySet<string> = new Set(["notifications/cancelled", "tasks/cancel"])

/** The requests of a handshake, which the protocol's client makes without headers, one after the other. */
const handshakes: ReadonlySet<string> = new Set(["server/discover", "initialize", "notifications/initialized"])
const handshake = "handshake"

const decodeMessage = Schema.decodeOption(
  Schema.fromJsonString(Schema.Struct({ method: Schema.optionalKey(Schema.String) }))
)

const methodOf = (body: string): string => Option.getOrUndefined(decodeMessage(body))?.method ?? ""

const methods: { readonly [name: string]: HttpMethod.HttpMethod } = { GET: "GET", POST: "POST", DELETE: "DELETE" }

const cancelTimedOut = failure(
  "transient",
  new Unreachable({ message: "The server did not take the cancel within 5 s" })
)

interface Options {
  /** It follows no redirects by itself, and connects only where the gateway may. */
  readonly client: HttpClient.HttpClient
  readonly auth: PeerAuth
  /** The headers of the request's own. */
  readonly headers: Readonly<Record<string, string>>
}

/** What belongs to one request of the protocol's client. */
export interface Ask {
  /** By which its HTTP requests are known. */
  readonly headers: Readonly<Record<string, string>>
  /** Why the last of them has failed, if it has. It is told once. */
  readonly takeFailure: () => ExchangeError | undefined
}

/**
 * The `fetch` of the protocol's client: every request goes through the gateway's own HTTP client, with the credentials of the server. Redirects
 * within the origin are followed, and a message of more than 8 MiB ends its answer.
 */
export class ServerFetch {
  readonly #options: Options
  /** Why requests have failed, by what was asked. Nobody asks for the failures of streams, replies and subscriptions: they are not kept. */
  readonly #failures = new Map<string, ExchangeError>()
  readonly #open = new Map<string, Scope.Closeable>()
  #asks = 0

  constructor(options: Options) {
    this.#options = options
  }

  /** For one request of the protocol's client, which may be a call. */
  readonly ask = (call?: string): Ask => {
    const name = `${++this.#asks}`
    const headers = { [askHeader]: name, ...(call !== undefined && { [callHeader]: call }) }
    return { headers, takeFailure: () => this.#takeFailure(name) }
  }

  /** For a handshake. */
  readonly handshake = (): Ask => ({ headers: {}, takeFailure: () => this.#takeFailure(handshake) })

  #takeFailure(ask: string): ExchangeError | undefined {
    const known = this.#failures.get(ask)
    this.#failures.delete(ask)
    return known
  }

  /** Closes the connection that a call waits on, if it still does. */
  close(call: string): Effect.Effect<void> {
    return Effect.suspend(() => {
      const scope = this.#open.get(call)
      return scope === undefined ? Effect.void : Scope.close(scope, Exit.void)
    })
  }

  /** As the protocol's client wants it. */
  readonly fetch = Effect.map(Effect.context(), (context): FetchLike => {
    const run = Effect.runPromiseWith(context)
    return (url, init = {}) => {
      const body = typeof init.body === "string" ? init.body : ""
      const method = methodOf(body)
      const { [askHeader]: ask = handshakes.has(method) ? handshake : undefined, ...headers } = Object.fromEntries(
        new Headers(init.headers)
      )
      const request = HttpClientRequest.make(methods[init.method ?? "GET"] ?? "GET")(url, {
        headers,
        ...(body !== "" && { body: HttpBody.text(body, "application/json") })
      })
      // The plan may be over before its cancels are sent.
      if (cancels.has(method)) {
        const sent = Effect.timeoutOrElse(this.#exchange(request, body, undefined), {
          duration: cancelTimeout,
          orElse: () => Effect.fail(cancelTimedOut)
        })
        return run(sent)
      }
      return run(this.#exchange(request, body, ask, init.signal ?? undefined), { signal: init.signal ?? undefined })
    }
  })

  readonly #send = Effect.fnUntraced(function* (
    this: ServerFetch,
    request: HttpClientRequest.HttpClientRequest,
    body: string
  ) {
    const { auth, client, headers } = this.#options
    const attempt = Effect.gen(function* () {
      const credentials = yield* auth.headers(body)
      const signed = HttpClientRequest.setHeaders(request, { ...headers, ...credentials })
      return yield* respond(HttpClient.withScope(client), signed)
    })
    const response = yield* attempt
    const { headers: told, status } = response
    return status === 401 && (yield* auth.renew(told["www-authenticate"])) ? yield* attempt : response
  })

  /** Sends a request, and gives the head of its answer. The connection closes with the body, or when the request is aborted. */
  readonly #exchange = Effect.fnUntraced(function* (
    this: ServerFetch,
    request: HttpClientRequest.HttpClientRequest,
    body: string,
    ask: string | undefined,
    signal?: AbortSignal
  ) {
    const call = request.headers[callHeader] ?? ""
    const scope = yield* Scope.make()
    const context = yield* Effect.context()
    const release = () => void Effect.runForkWith(context)(Scope.close(scope, Exit.void))
    yield* Scope.addFinalizer(
      scope,
      Effect.sync(() => signal?.removeEventListener("abort", release))
    )
    if (call !== "") {
      this.#open.set(call, scope)
      yield* Scope.addFinalizer(
        scope,
        Effect.sync(() => this.#open.delete(call))
      )
    }
    if (ask !== undefined) this.#failures.delete(ask)
    const fail = (error: ExchangeError) => Effect.sync(() => void (ask !== undefined && this.#failures.set(ask, error)))
    const response = yield* this.#send(request, body).pipe(
      Scope.provide(scope),
      Effect.tapError(fail),
      Effect.onError(() => Scope.close(scope, Exit.void))
    )
    signal?.addEventListener("abort", release, { once: true })
    const { headers, status } = response
    const isEvents = /^text\/event-stream\b/i.test(headers["content-type"] ?? "")
    const bytes = limited(Stream.mapError(response.stream, fromClient), isEvents).pipe(
      Stream.tapError(fail),
      Stream.ensuring(Scope.close(scope, Exit.void))
    )
    const isEmpty = status === 204 || status === 205 || status === 304
    if (isEmpty) yield* Scope.close(scope, Exit.void)
    return new Response(isEmpty ? null : Stream.toReadableStreamWith(bytes, context), { status, headers })
  })
}
