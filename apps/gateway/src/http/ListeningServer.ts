import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Layer } from "effect"
import { createServer } from "node:http"

/** How long the last responses may take when the gateway closes. Then it cuts their connections. */
const closeGrace = "2 seconds"

/** Listens on an address. It closes after the last response has ended. */
export const layer = (options: { readonly host: string; readonly port: number }) => {
  const server = createServer()
  // While the server closes, nobody needs a connection whose response has ended.
  server.on("request", (_, response) => {
    response.once("close", () => {
      if (!server.listening) server.closeIdleConnections()
    })
  })
  const cut = Layer.effectDiscard(Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections())))
  return Layer.provideMerge(
    cut,
    NodeHttpServer.layer(() => server, { ...options, gracefulShutdownTimeout: closeGrace })
  )
}
