import { Broken, type Site } from "@bowline/testing/unstable/simulation/ReplicaClient"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Effect, Layer, type Scope } from "effect"
import { HttpServer } from "effect/http"
import * as NetAddress from "effect/net/NetAddress"
import { createServer, type IncomingMessage, request, type RequestOptions } from "node:http"
import type { Duplex } from "node:stream"
import { connect } from "./Cable.ts"

/** Sends requests to the HTTP server of one replica. */
export class Wire extends Context.Service<
  Wire,
  {
    /** The head of the answer. The connection closes with the scope. */
    readonly ask: (
      options: Pick<RequestOptions, "method" | "path"> & { readonly headers?: Readonly<Record<string, string>> },
      body?: string
    ) => Effect.Effect<IncomingMessage, Broken, Scope.Scope>
  }
>()("@bowline/gateway/test/simulation/Wire") {}

/** An HTTP server of Node.js that listens nowhere: each request comes over a cable of its own. */
export const layer = ({ connections, process, world }: Site) =>
  Layer.effectContext(
    Effect.gen(function* () {
      const server = createServer({ requireHostHeader: false })
      const open = new Set<Duplex>()
      yield* Effect.addFinalizer(() => Effect.sync(() => open.forEach((socket) => socket.destroy())))
      const ask: Wire["Service"]["ask"] = Effect.fnUntraced(function* (options, body = "") {
        if (!process.isAlive) return yield* new Broken()
        const cable = connect(world.process, process)
        const sent = yield* Effect.acquireRelease(
          Effect.sync(() => request({ ...options, createConnection: () => cable.client })),
          (sent) => Effect.sync(() => sent.destroy())
        )
        open.add(cable.server)
        cable.server.once("close", () => open.delete(cable.server))
        const forget = process.onKill(() => {
          cable.server.removeAllListeners()
          world.process.post(() => cable.client.destroy(new Error("killed")))
        })
        const reset = () => {
          cable.client.destroy(new Error("reset"))
          process.post(() => cable.server.destroy(new Error("reset")))
        }
        connections.add(reset)
        cable.client.once("close", () => {
          forget()
          connections.delete(reset)
        })
        process.post(() => server.emit("connection", cable.server))
        return yield* Effect.callback<IncomingMessage, Broken>((resume) => {
          sent.once("response", (answer) => resume(Effect.succeed(answer)))
          sent.on("error", () => resume(Effect.fail(new Broken())))
          sent.end(body)
        })
      })
      const http = HttpServer.make({
        address: NetAddress.inetAddressUnsafe(NetAddress.ipv4Loopback, 80),
        // The server of Node.js takes what every server takes: an app that may fail with anything.
        // @effect-diagnostics anyUnknownInErrorContext:off
        serve: (app, middleware) =>
          Effect.flatMap(Effect.scope, (scope) =>
            Effect.map(
              NodeHttpServer.makeHandler(app, { middleware, scope }),
              (handler) => void server.on("request", handler)
            )
          )
      })
      return Context.make(Wire, { ask }).pipe(Context.add(HttpServer.HttpServer, http))
    })
  ).pipe(Layer.merge(HttpServer.layerServices))
