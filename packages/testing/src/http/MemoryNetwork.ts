import { Context, Deferred, Effect, Exit, type Fiber, FiberSet, Layer, Queue, Stream } from "effect"
import { HttpClient } from "effect/http"
import * as ExchangeLog from "../exchange/ExchangeLog.ts"
import { Fault, type Host, type HostRequest, type HostResponse } from "./Host.ts"
import { clientOf, type Connection, type Pieces } from "./internal/MemoryClient.ts"
import { respond } from "./internal/respond.ts"
import { Network } from "./Network.ts"
import * as RequestLog from "./RequestLog.ts"

/**
 * Hosts at `http://host-1.test`, `http://host-2.test` … and the `HttpClient` that reaches them, and nothing else. All of it
 * runs on the `Clock` and without sockets, so that a `TestClock` sees every wait of both ends.
 *
 * @example
 * ```ts
 * import * as A2aPeerClient from "@bowline/a2a/peer/A2aPeerClient"
 * import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
 * import { Layer } from "effect"
 *
 * // Peers of a test, without sockets: for `TestClock`.
 * export const Peers = A2aPeerClient.layer.pipe(Layer.provideMerge(MemoryNetwork.layer))
 * ```
 */
export const layer: Layer.Layer<Network | HttpClient.HttpClient> = Layer.effectContext(
  Effect.sync(() => {
    const hosts = new Map<string, (request: HostRequest, pieces: Pieces) => Connection>()
    let served = 0
    const network = Network.of({
      serve: Effect.fnUntraced(function* (host) {
        const requests = yield* ExchangeLog.make<HostRequest, RequestLog.Ending>()
        const run = yield* FiberSet.makeRuntime<never, void>()
        const url = `http://host-${++served}.test`
        yield* Effect.acquireRelease(
          Effect.sync(() => hosts.set(url, (request, pieces) => connect(host, requests, run, request, pieces))),
          () => Effect.sync(() => hosts.delete(url))
        )
        return { url, requests }
      })
    })
    const client = clientOf((request, pieces) => hosts.get(request.url.origin)?.(request, pieces))
    return Context.make(Network, network).pipe(Context.add(HttpClient.HttpClient, client))
  })
)

const connect = (
  host: Host,
  requests: RequestLog.RequestLog,
  run: (exchange: Effect.Effect<void>) => Fiber.Fiber<void>,
  request: HostRequest,
  pieces: Pieces
): Connection => {
  const head = Deferred.makeUnsafe<HostResponse, Fault>()
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
  const fiber = run(Effect.ignore(exchange))
  return { head, close: () => fiber.interruptUnsafe() }
}
