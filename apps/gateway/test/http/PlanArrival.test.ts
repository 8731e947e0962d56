import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { Agent, createServer, request } from "node:http"
import type { AddressInfo, Socket } from "node:net"
import * as PlanArrival from "../../src/http/PlanArrival.ts"

describe("the arrival of a plan", () => {
  it.live(
    "learns of the end of its connection before its request is interrupted, and leaves nothing on one that is used again",
    () =>
      Effect.gen(function* () {
        const over = yield* Deferred.make<void>()
        const heard: Array<string> = []
        const sockets: Array<Socket> = []
        const listeners: Array<number> = []
        const handled = Effect.gen(function* () {
          const asked = yield* HttpServerRequest.HttpServerRequest
          PlanArrival.join({ connect: () => () => void heard.push("disconnected") }, asked)
          if (asked.url === "/brief") return HttpServerResponse.text("brief")
          const body = Stream.onExit(Stream.concat(Stream.succeed(Buffer.from("long")), Stream.never), () =>
            Effect.andThen(
              Effect.sync(() => heard.push("interrupted")),
              Deferred.succeed(over, undefined)
            )
          )
          return HttpServerResponse.stream(body)
        })
        const server = createServer(yield* NodeHttpServer.makeHandler(handled, { scope: yield* Effect.scope }))
        server.prependListener("request", ({ socket }) => {
          sockets.push(socket)
          listeners.push(socket.listenerCount("end"))
        })
        yield* Effect.acquireRelease(
          Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
          () => Effect.callback<void>((resume) => void server.close(() => resume(Effect.void)))
        )
        const { port } = server.address() as AddressInfo
        const agent = new Agent({ keepAlive: true, maxSockets: 1 })
        const get = (path: string, until: "data" | "end") =>
          Effect.callback<() => void>((resume) => {
            const asked = request({ port, path, agent }, (answer) =>
              answer.on(until, () => resume(Effect.succeed(() => asked.destroy()))).resume()
            ).end()
          })
        yield* get("/brief", "end")
        const leave = yield* get("/long", "data")
        assert.strictEqual(new Set(sockets).size, 1)
        assert.strictEqual(listeners[1], listeners[0])
        assert.isEmpty(heard)
        leave()
        yield* Deferred.await(over)
        assert.deepStrictEqual(heard, ["disconnected", "interrupted"])
      }).pipe(Effect.scoped)
  )
})
