import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Layer } from "effect"
import { createServer } from "node:http"

/** How long the last responses may take when the gateway closes. Then their connections are cut. */
const closeGrace = "2 seconds"

/** Listens on an address. Closes when what is served has ended. */
export const layer = (options: { readonly host: string; readonly port: number }) => {
  const server = createServer()
  // While it closes, a connection that has had its answer is kept for nothing.
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
