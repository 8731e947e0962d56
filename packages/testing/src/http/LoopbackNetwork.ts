import { Effect, FiberSet, Layer, Stream } from "effect"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import * as ExchangeLog from "../exchange/ExchangeLog.ts"
import type { Host, HostRequest } from "./Host.ts"
import { respond } from "./internal/respond.ts"
import { Network } from "./Network.ts"
import * as RequestLog from "./RequestLog.ts"

/**
 * Hosts on free ports of 127.0.0.1, with real sockets, for clients of any process.
 *
 * @example
 * ```ts
 * import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
 * import { completes } from "@bowline/testing/peer/Act"
 * import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
 * import { Effect } from "effect"
 *
 * export const program = Effect.gen(function* () {
 *   const peer = yield* ScriptedPeer.serve({ acts: [completes("It holds.")] })
 *   yield* Effect.log(peer.url)
 * }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
 * ```
 */
export const layer: Layer.Layer<Network> = Layer.succeed(
  Network,
  Network.of({
    serve: Effect.fnUntraced(function* (host, wanted = 0) {
      const requests = yield* ExchangeLog.make<HostRequest, RequestLog.Ending>()
      const run = yield* FiberSet.makeRuntime()
      const server = createServer((incoming, outgoing) => {
        run(exchange(host, requests, incoming, outgoing))
      })
      const port = yield* Effect.acquireRelease(
        Effect.catchCause(listen(server, wanted), () => listen(server, 0)),
        () => close(server)
      )
      return { url: `http://127.0.0.1:${port}`, requests }
    })
  })
)

const listen = (server: Server, port: number) =>
  Effect.callback<number>((resume) => {
    server.once("error", (cause) => resume(Effect.die(cause)))
    server.listen(port, "127.0.0.1", () => {
      const address = server.address()
      resume(Effect.succeed(typeof address === "string" ? 0 : (address?.port ?? 0)))
    })
  })

const close = (server: Server) =>
  Effect.callback<void>((resume) => {
    server.close(() => resume(Effect.void))
    server.closeAllConnections()
  })

const exchange = Effect.fnUntraced(
  function* (host: Host, requests: RequestLog.RequestLog, incoming: IncomingMessage, outgoing: ServerResponse) {
    const request = yield* read(incoming)
    yield* RequestLog.record(requests, request, Effect.raceFirst(answer(host, request, outgoing), closedBy(outgoing)))
  },
  (effect, _host, _requests, _incoming, outgoing) =>
    Effect.catchTag(effect, "Fault", (fault) =>
      Effect.sync(() => {
        if (fault.kind === "reset") outgoing.socket?.resetAndDestroy()
        else outgoing.socket?.destroySoon()
      })
    )
)

const protobuf = "application/x-protobuf"

const read = (incoming: IncomingMessage) =>
  Effect.callback<HostRequest>((resume) => {
    const chunks: Array<Buffer> = []
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk))
    incoming.once("error", () => resume(Effect.interrupt))
    incoming.once("end", () => {
      const url = new URL(incoming.url ?? "/", `http://${incoming.headers.host ?? "127.0.0.1"}`)
      const headers: Record<string, string> = {}
      for (const [name, value] of Object.entries(incoming.headers)) headers[name] = [value ?? ""].flat().join(", ")
      resume(
        Effect.succeed({
          method: incoming.method ?? "GET",
          url,
          headers,
          body: Buffer.concat(chunks).toString(headers["content-type"] === protobuf ? "latin1" : "utf8")
        })
      )
    })
  })

const answer = Effect.fnUntraced(function* (host: Host, request: HostRequest, outgoing: ServerResponse) {
  const response = yield* respond(host, request)
  outgoing.writeHead(response.status, response.headers)
  outgoing.flushHeaders()
  yield* Stream.runForEach(response.body, (bytes) => write(outgoing, bytes))
  yield* Effect.callback<void>((resume) => {
    outgoing.end(() => resume(Effect.void))
  })
})

// Waits until the bytes have left the process: a break right behind them would drop them.
const write = (outgoing: ServerResponse, bytes: Uint8Array) =>
  Effect.callback<void>((resume) => {
    outgoing.write(bytes, () => resume(Effect.void))
  })

const closedBy = (outgoing: ServerResponse) =>
  Effect.callback<never>((resume) => {
    const onClose = () => {
      if (!outgoing.writableFinished) resume(Effect.interrupt)
    }
    outgoing.once("close", onClose)
    return Effect.sync(() => outgoing.off("close", onClose))
  })
