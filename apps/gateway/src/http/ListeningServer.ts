import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { counter } from "@bowline/runtime/unstable/telemetry/Instrument"
import { Context, Duration, Effect, Layer } from "effect"
import cluster from "node:cluster"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import { Server as NetServer } from "node:net"
import type { HttpLimits } from "../config/GatewayConfig.ts"
import { read } from "../worker/WorkerMessage.ts"
import * as HalfClosed from "./HalfClosed.ts"
import * as MalformedRequest from "./MalformedRequest.ts"

/** How long the last responses may take when the gateway closes. Then it cuts their connections. */
const closeGrace = "2 seconds"

/** How much later than it tells its clients the server closes an idle connection at most, in milliseconds. */
const idleSlack = 1_500

/** How late a time-out may be noticed, in milliseconds. */
const maxLate = 1_000

const dropped = counter({
  name: "bowline.connections.dropped",
  description: "Connections that were closed at once, since as many were open as may be"
})

/**
 * The server listens before it has its routes, and may build them in several turns of the event loop. What comes in between waits
 * for the routes, which are the next listener. Nobody would ever answer it otherwise.
 */
const holdUntilRouted = (server: Server): void => {
  const early: Array<readonly [IncomingMessage, ServerResponse]> = []
  const hold = (request: IncomingMessage, response: ServerResponse) => void early.push([request, response])
  server.on("request", hold)
  const onListener = (event: string, route: (request: IncomingMessage, response: ServerResponse) => void) => {
    if (event !== "request") return
    server.off("newListener", onListener)
    server.off("request", hold)
    for (const [request, response] of early) if (!request.socket.destroyed) route(request, response)
  }
  server.on("newListener", onListener)
}

const makeServer = ({ headersTimeout, keepAliveTimeout, maxConnections, requestTimeout }: HttpLimits) => {
  const request = Duration.toMillis(requestTimeout)
  const headers = Math.min(Duration.toMillis(headersTimeout), request)
  const server = createServer({
    headersTimeout: headers,
    requestTimeout: request,
    keepAliveTimeout: Duration.toMillis(keepAliveTimeout),
    connectionsCheckingInterval: Math.min(headers, maxLate),
    // Node would answer without a document. `Entrance` refuses such a request.
    requireHostHeader: false,
    // No route upgrades. Such a request gets the usual answer, within the usual time-outs, which end with an upgrade.
    shouldUpgradeCallback: () => false
  })
  server.maxConnections = maxConnections
  // While the server closes, nobody needs a connection whose response has ended. One that leaves needs them for a while.
  server.on("request", (_, response) => {
    response.once("close", () => {
      if (!server.listening && !leaving.has(server)) server.closeIdleConnections()
    })
  })
  return server
}

/** The servers that take no more connections, and serve those that are open. */
const leaving = new WeakSet<Server>()

const orderToLeave = Effect.callback<void>((resume) => {
  const listen = (message: unknown) => {
    if (read(message)?._tag === "Leave") resume(Effect.void)
  }
  process.on("message", listen)
  return Effect.sync(() => process.off("message", listen))
})

/**
 * Leaves when the supervisor of several workers orders it: the server takes no more connections, and serves those that are open until none
 * is idle, since a client may be sending a request on an idle one. Then the process shuts down as after a signal.
 */
const leaveOnOrder = Effect.fnUntraced(function* (server: Server) {
  yield* orderToLeave
  leaving.add(server)
  server.on("request", (_, response) => response.setHeader("connection", "close"))
  const closed = Effect.callback<void>((resume) => {
    // The method of `http.Server` would cut the idle connections.
    NetServer.prototype.close.call(server, () => resume(Effect.void))
  })
  yield* Effect.timeoutOption(closed, server.keepAliveTimeout + idleSlack)
  leaving.delete(server)
  process.kill(process.pid, "SIGTERM")
})

/**
 * Waits until the responses of a server that has left have ended, for a short time: Effect, which closes the server, does so only if it
 * still listens.
 */
export class LastResponses extends Context.Service<LastResponses, Effect.Effect<void>>()(
  "@bowline/gateway/http/ListeningServer/LastResponses"
) {}

const lastResponsesOf = (server: Server): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    if (server.listening) return resume(Effect.void)
    server.closeIdleConnections()
    server.getConnections((_, open) => {
      if (open === 0) resume(Effect.void)
      else server.once("close", () => resume(Effect.void))
    })
  }).pipe(Effect.timeoutOption(closeGrace), Effect.asVoid)

/** Listens on an address. It closes after the last response has ended. */
export const layer = ({
  host,
  http,
  port
}: {
  readonly host: string
  readonly port: number
  readonly http: HttpLimits
}) => {
  const server = makeServer(http)
  const count = Effect.map(Effect.context(), (context) => server.on("drop", () => dropped.updateUnsafe(1, {}, context)))
  const cut = Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
  const mayLeave = cluster.isWorker ? Effect.forkScoped(leaveOnOrder(server)) : Effect.void
  const prepared = Effect.andThen(
    Effect.all([MalformedRequest.answerOn(server), HalfClosed.answerOn(server)]),
    Effect.sync(() => holdUntilRouted(server))
  )
  return Layer.effect(LastResponses, Effect.as(Effect.all([count, cut, mayLeave]), lastResponsesOf(server))).pipe(
    Layer.provideMerge(NodeHttpServer.layer(() => server, { host, port, gracefulShutdownTimeout: closeGrace })),
    Layer.provideMerge(Layer.effectDiscard(prepared))
  )
}
