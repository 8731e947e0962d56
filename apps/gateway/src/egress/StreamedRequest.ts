import type { Dispatcher } from "@effect/platform-node/Undici"
import { Connections, type Head, type Send } from "@bowline/runtime/unstable/provider/HttpAttempt"
import * as TraceContext from "@bowline/runtime/unstable/telemetry/TraceContext"
import { Array, Cause, Effect, Option, type Pull, Scope, Stream } from "effect"
import { Headers, HttpClientError, HttpClientRequest } from "effect/http"

/** Why a request is ended. Nobody looks at it, and a trace of the stack would cost more than the end of the request. */
const unwanted = new Error("Nobody waits for the answer any more")

/** Bytes of an answer that may wait for their reader. Beyond that its server waits. */
const maxWaiting = 65_536

type Bytes = Pull.Pull<Array.NonEmptyReadonlyArray<Uint8Array>, HttpClientError.HttpClientError>

/**
 * A request, and its answer as it comes.
 *
 *     sent ──head──▶ answering ──end──▶ over
 *       └──────failure──┴──failure──▶ failed: what has come before can still be read
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #request: HttpClientRequest.HttpClientRequest
  #controller: Dispatcher.DispatchController | undefined
  #head: Head | undefined
  #pieces: Array<Uint8Array> = []
  #waiting = 0
  #isOver = false
  #failure: HttpClientError.HttpClientError | undefined
  #isClosed = false
  #isSilent = false
  #hasNews = false
  #wake: (() => void) | undefined

  constructor(request: HttpClientRequest.HttpClientRequest) {
    this.#request = request
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#isClosed) this.close()
  }

  onResponseStart(_: unknown, status: number, headers: NodeJS.Dict<string | Array<string>>): void {
    // Those below 200 announce the answer.
    if (status < 200) return
    this.#head = { status, headers: Headers.fromInput(headers), stream: Stream.fromPull(Effect.succeed(this.#pull)) }
    this.#tell()
  }

  onResponseData(controller: Dispatcher.DispatchController, piece: Uint8Array): void {
    this.#pieces.push(piece)
    this.#waiting += piece.length
    if (this.#waiting >= maxWaiting) controller.pause()
    this.#tell()
  }

  onResponseEnd(): void {
    this.#isOver = true
    this.#tell()
  }

  onResponseError(_: unknown, cause: Error): void {
    if (this.#isSilent) return
    const reason = new HttpClientError.TransportError({ request: this.#request, cause })
    this.#failure = new HttpClientError.HttpClientError({ reason })
    this.#tell()
  }

  /** The same for a reader that is about to be interrupted: until then it waits. */
  readonly closeSilently = (): void => {
    this.#isSilent = true
    this.close()
  }

  /** Ends what has not ended. */
  close(): void {
    this.#isClosed = true
    if (this.#isOver || this.#failure !== undefined) return
    const { stackTraceLimit } = Error
    // Undici makes an error for the socket.
    Error.stackTraceLimit = 0
    this.#controller?.abort(unwanted)
    Error.stackTraceLimit = stackTraceLimit
  }

  /** Waits for the head of the answer. */
  readonly head: Effect.Effect<Head, HttpClientError.HttpClientError> = Effect.suspend(() => {
    this.#hasNews = false
    if (this.#head !== undefined) return Effect.succeed(this.#head)
    return this.#failure === undefined ? Effect.flatMap(this.#news, () => this.head) : Effect.fail(this.#failure)
  })

  readonly #pull: Bytes = Effect.suspend((): Bytes => {
    this.#hasNews = false
    const pieces = this.#pieces
    if (Array.isArrayNonEmpty(pieces)) {
      this.#pieces = []
      this.#waiting = 0
      this.#controller?.resume()
      return Effect.succeed(pieces)
    }
    if (this.#failure !== undefined) return Effect.fail(this.#failure)
    return this.#isOver ? Cause.done() : Effect.flatMap(this.#news, () => this.#pull)
  })

  readonly #news = Effect.callback<void>((resume) => {
    if (this.#hasNews) resume(Effect.void)
    else this.#wake = () => resume(Effect.void)
  })

  /** Wakes the reader: once for all that one read of the socket brings. */
  #tell(): void {
    if (this.#hasNews) return
    this.#hasNews = true
    queueMicrotask(() => this.#wake?.())
  }
}

/**
 * Sends requests of attempts on a dispatcher. Node's streams, abort signals and promises stand between Undici and its usual clients;
 * here each read of the socket wakes the reader of the answer, and nothing else.
 */
export const make =
  (dispatcher: Dispatcher): Send =>
  (request) =>
    Effect.withFiber((fiber) => {
      const { body, method } = request
      const url = Option.getOrThrow(HttpClientRequest.toUrl(request))
      const exchange = new Exchange(request)
      const connections = fiber.getRef(Connections)
      const begin = Effect.suspend(() => {
        connections?.add(exchange.closeSilently)
        dispatcher.dispatch(
          {
            origin: url.origin,
            path: url.pathname + url.search,
            method,
            headers: { ...TraceContext.of(fiber.context), ...request.headers },
            body: body._tag === "Uint8Array" ? body.body : null
          },
          exchange
        )
        return exchange.head
      })
      return Effect.flatMap(Effect.scope, (scope) =>
        Effect.andThen(
          Scope.addFinalizer(
            scope,
            Effect.sync(() => {
              connections?.delete(exchange.closeSilently)
              exchange.close()
            })
          ),
          begin
        )
      )
    })
