import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { counter } from "@bowline/runtime/unstable/telemetry/Instrument"
import { Duration, Effect, Layer } from "effect"
import { createServer } from "node:http"
import type { HttpLimits } from "../config/GatewayConfig.ts"
import * as MalformedRequest from "./MalformedRequest.ts"

/** How long the last responses may take when the gateway closes. Then it cuts their connections. */
const closeGrace = "2 seconds"

/** How late a time-out may be noticed, in milliseconds. */
const maxLate = 1_000

const dropped = counter({
  name: "bowline.connections.dropped",
  description: "Connections that were closed at once, since as many were open as may be"
})

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
  return Layer.provideMerge(
    Layer.effectDiscard(Effect.all([count, cut, MalformedRequest.answerOn(server)])),
    NodeHttpServer.layer(() => server, { host, port, gracefulShutdownTimeout: closeGrace })
  )
}
