import { Context, Deferred, Effect, Exit, Fiber, FiberSet, Layer, Queue, Stream, type Cause } from "effect"
import { HttpClient, HttpClientError, type HttpClientRequest } from "effect/http"
import * as ExchangeLog from "../exchange/ExchangeLog.ts"
import { Fault, type Host, type HostRequest, type HostResponse } from "./Host.ts"
import { MemoryResponse } from "./internal/MemoryResponse.ts"
import { respond } from "./internal/respond.ts"
import { Network } from "./Network.ts"
import * as RequestLog from "./RequestLog.ts"

/** The host's end of a connection: the head, then each piece when it comes. */
interface Connection {
  readonly head: Deferred.Deferred<HostResponse, Fault>
  readonly pieces: Queue.Queue<Uint8Array, Fault | Cause.Done>
  readonly fiber: Fiber.Fiber<void>
}

/**
 * Hosts at `http://host-1.test`, `http://host-2.test` … and the `HttpClient` that reaches them, and nothing else. All of it
 * runs on the `Clock` and without sockets, so that a `TestClock` sees every wait of both ends.
 */
export const layer: Layer.Layer<Network | HttpClient.HttpClient> = Layer.effectContext(
  Effect.sync(() => {
    const hosts = new Map<string, (request: HostRequest) => Connection>()
    let served = 0
    const network = Network.of({
      serve: Effect.fnUntraced(function* (host) {
        const requests = yield* ExchangeLog.make<HostRequest, RequestLog.Ending>()
        const run = yield* FiberSet.makeRuntime<never, void>()
        const url = `http://host-${++served}.test`
        yield* Effect.acquireRelease(
          Effect.sync(() => hosts.set(url, (request) => connect(host, requests, request, run))),
          () => Effect.sync(() => hosts.delete(url))
        )
        return { url, requests }
      })
    })
    const client = HttpClient.make(
      Effect.fnUntraced(function* (request, url, signal) {
        const open = hosts.get(url.origin)
        if (open === undefined) return yield* transportError(request, failure("ECONNREFUSED", "connect ECONNREFUSED"))
        const connection = open({
          method: request.method,
          url,
          headers: headersOf(request, url),
          body: yield* bodyOf(request)
        })
        signal.addEventListener("abort", () => connection.fiber.interruptUnsafe())
        const head = yield* Effect.catchTag(Deferred.await(connection.head), "Fault", (fault) =>
          transportError(request, broken(fault))
        )
        return new MemoryResponse(request, url, head, (response) =>
          Stream.fromQueue(connection.pieces).pipe(
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
    return Context.make(Network, network).pipe(Context.add(HttpClient.HttpClient, client))
  })
)

const connect = (
  host: Host,
  requests: RequestLog.RequestLog,
  request: HostRequest,
  run: (exchange: Effect.Effect<void>) => Fiber.Fiber<void>
): Connection => {
  const head = Deferred.makeUnsafe<HostResponse, Fault>()
  const pieces = Effect.runSync(Queue.unbounded<Uint8Array, Fault | Cause.Done>())
  const answer = Effect.gen(function* () {
    const response = yield* respond(host, request)
    yield* Deferred.succeed(head, response)
    yield* Stream.runForEach(response.body, (bytes) => Queue.offer(pieces, bytes))
  })
  const exchange = Effect.onExit(RequestLog.record(requests, request, answer), (exit) => {
    if (Exit.isSuccess(exit)) return Queue.end(pieces)
    const fault = RequestLog.faultOf(exit.cause) ?? new Fault({ kind: "cut" })
    return Effect.andThen(Deferred.fail(head, fault), Queue.fail(pieces, fault))
  })
  return { head, pieces, fiber: run(Effect.ignore(exchange)) }
}

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
