import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { counter } from "@bowline/runtime/unstable/telemetry/Instrument"
import { Duration, Effect, Layer } from "effect"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { HttpLimits } from "../config/GatewayConfig.ts"
import * as HalfClosed from "./HalfClosed.ts"
import * as MalformedRequest from "./MalformedRequest.ts"

/** How long the last responses may take when the gateway closes. Then it cuts their connections. */
const closeGrace = "2 seconds"

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

const makeServer = ({ headersTimeout, maxConnections, requestTimeout }: HttpLimits) => {
  const request = Duration.toMillis(requestTimeout)
  const headers = Math.min(Duration.toMillis(headersTimeout), request)
  const server = createServer({
    headersTimeout: headers,
    requestTimeout: request,
    connectionsCheckingInterval: Math.min(headers, maxLate),
    // Node would answer without a document. `Entrance` refuses such a request.
    requireHostHeader: false,
    // No route upgrades. Such a request gets the usual answer, within the usual time-outs, which end with an upgrade.
    shouldUpgradeCallback: () => false
  })
  server.maxConnections = maxConnections
  // While the server closes, nobody needs a connection whose response has ended.
  server.on("request", (_, response) => {
    response.once("close", () => {
      if (!server.listening) server.closeIdleConnections()
    })
  })
  return server
}

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
  const prepared = Effect.andThen(
    Effect.all([MalformedRequest.answerOn(server), HalfClosed.answerOn(server)]),
    Effect.sync(() => holdUntilRouted(server))
  )
  return Layer.effectDiscard(Effect.all([count, cut])).pipe(
    Layer.provideMerge(NodeHttpServer.layer(() => server, { host, port, gracefulShutdownTimeout: closeGrace })),
    Layer.provideMerge(Layer.effectDiscard(prepared))
  )
}
