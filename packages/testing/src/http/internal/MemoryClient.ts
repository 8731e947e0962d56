import { type Cause, Deferred, Effect, Queue, Stream } from "effect"
import { HttpClient, HttpClientError, type HttpClientRequest } from "effect/http"
import type { Fault, HostRequest, HostResponse } from "../Host.ts"
import { MemoryResponse } from "./MemoryResponse.ts"

/** Where a client reads what comes of a body. */
export type Pieces = Queue.Queue<Uint8Array, Fault | Cause.Done>

/** A client's end of a connection. `close` is called when the client drops it. */
export interface Connection {
  readonly head: Deferred.Deferred<HostResponse, Fault>
  readonly close: () => void
}

/** An `HttpClient` that connects like that, and refuses connections where there is nothing. */
export const clientOf = (
  connect: (request: HostRequest, pieces: Pieces) => Connection | undefined
): HttpClient.HttpClient =>
  HttpClient.make(
    Effect.fnUntraced(function* (request, url, signal) {
      const body = yield* bodyOf(request)
      // Made by the fiber that reads it: a queue wakes its reader by the scheduler of whoever made it.
      const pieces: Pieces = yield* Queue.unbounded<Uint8Array, Fault | Cause.Done>()
      const connection = connect({ method: request.method, url, headers: headersOf(request, url), body }, pieces)
      if (connection === undefined) {
        return yield* transportError(request, failure("ECONNREFUSED", "connect ECONNREFUSED"))
      }
      signal.addEventListener("abort", connection.close)
      const head = yield* Effect.catchTag(Deferred.await(connection.head), "Fault", (fault) =>
        transportError(request, broken(fault))
      )
      return new MemoryResponse(request, url, head, (response) =>
        Stream.fromQueue(pieces).pipe(
          Stream.mapError(
            (fault) =>
              new HttpClientError.HttpClientError({
                reason: new HttpClientError.DecodeError({ request, response, cause: broken(fault) })
              })
          )
        )
      )
    })
  )

const headersOf = (request: HttpClientRequest.HttpClientRequest, url: URL): Record<string, string> => ({
  host: url.host,
  ...request.headers
})

const bodyOf = ({ body }: HttpClientRequest.HttpClientRequest): Effect.Effect<string> => {
  switch (body._tag) {
    case "Empty":
      return Effect.succeed("")
    case "Uint8Array":
      return Effect.succeed(new TextDecoder().decode(body.body))
    case "Stream":
      return Stream.mkString(Stream.decodeText(Stream.orDie(body.stream)))
    case "Raw":
    case "FormData":
      return Effect.die(`A host in memory cannot read a body of ${body._tag}`)
  }
}

const transportError = (request: HttpClientRequest.HttpClientRequest, cause: Error) =>
  new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request, cause }) })

const failure = (code: string, message: string): Error => Object.assign(new Error(message), { code })

/** The errors of undici. */
const broken = (fault: Fault): Error =>
  fault.kind === "reset" ? failure("ECONNRESET", "read ECONNRESET") : failure("UND_ERR_SOCKET", "other side closed")
