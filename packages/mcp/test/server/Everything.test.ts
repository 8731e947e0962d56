import { McpClient } from "@bowline/runtime/remote/McpClient"
import { direct } from "@bowline/runtime/remote/PeerClient"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import * as SdkMcpClient from "../../src/server/SdkMcpClient.ts"
import { callTool, serverAt } from "./call.ts"

const sockets = SdkMcpClient.layer.pipe(Layer.provide(NodeHttpClient.layerUndici))
const main = fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-everything/dist/index.js"))

/** The server does not say which port it got: its process says it. */
const sayPort = `import { Server } from "node:net"
const { listen } = Server.prototype
Server.prototype.listen = function (...args) {
  return listen.apply(this.once("listening", () => console.log("port " + this.address().port)), args)
}`

/** The reference server with all features of the protocol, in a process of its own. */
const serve = Effect.gen(function* () {
  const { stdout } = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(
        process.execPath,
        ["--import", `data:text/javascript,${encodeURIComponent(sayPort)}`, main, "streamableHttp"],
        {
          env: { PORT: "0" },
          stdio: ["ignore", "pipe", "ignore"]
        }
      )
    ),
    (child) => Effect.sync(() => child.kill())
  )
  const port = yield* Effect.callback<string>((resume) => {
    createInterface({ input: stdout }).on("line", (line) => {
      const [, port] = /^port (\d+)$/.exec(line) ?? []
      if (port !== undefined) resume(Effect.succeed(port))
    })
  })
  return `http://127.0.0.1:${port}`
})

it.live(
  "lists and calls the tools of the reference server, also one that needs a task",
  () =>
    Effect.gen(function* () {
      const url = yield* serve
      const client = yield* McpClient
      const connection = yield* client.connect(serverAt(url), direct)
      assert.match(connection.description ?? "", /everything/iu)
      const names = (yield* connection.tools).map(({ name }) => name)
      assert.includeMembers(names, ["echo", "get-sum", "get-structured-content"])
      // It can be called as a task only.
      assert.include(names, "simulate-research-query")
      const call = (name: string, input: object) => callTool(connection, name, { ...input })
      assert.deepStrictEqual((yield* call("echo", { message: "hi" })).text, "Echo: hi")
      const weather = yield* call("get-structured-content", { location: "Chicago" })
      assert.deepNestedInclude(weather, { state: "completed", "structured.temperature": 36 })
      const { files = [] } = yield* call("get-tiny-image", {})
      assert.deepStrictEqual(
        files.map((file) => [
          file.mediaType,
          "data" in file && Buffer.from(file.data, "base64").subarray(1, 4).toString()
        ]),
        [["image/png", "PNG"]]
      )
      const told: Array<string> = []
      const research = callTool(connection, "simulate-research-query", { topic: "knots" }, (message) =>
        Effect.sync(() => void told.push(message))
      )
      assert.match((yield* research).text, /^# Research Report: knots/)
      // A stage takes a second. A slow machine may read the next one only.
      assert.isAbove(new Set(told).size, 1, told.join(" "))
      assert.match((yield* call("get-resource-links", { count: 1 })).text, /\[link\] .*: demo:\/\//)
    }).pipe(Effect.scoped, Effect.provide(sockets)),
  60_000
)
