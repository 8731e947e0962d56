import { McpCommand } from "@bowline/domain/unstable/mcp/McpServer"
import { ConfiguredServers } from "@bowline/runtime/unstable/remote/ConfiguredServers"
import { direct } from "@bowline/runtime/remote/PeerClient"
import * as NodeChildProcessSpawner from "@effect/platform-node/NodeChildProcessSpawner"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as NodePath from "@effect/platform-node/NodePath"
import { Context, Effect, Exit, Layer, Logger, Schema, Scope } from "effect"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as SdkConfiguredServers from "../../src/server/SdkConfiguredServers.ts"

export const PATH = process.env["PATH"] ?? ""

const platform = Layer.merge(
  NodeChildProcessSpawner.layer.pipe(Layer.provide([NodeFileSystem.layer, NodePath.layer])),
  NodeHttpClient.layerUndici
)

export const quiet = Logger.layer([])

type Variables = Readonly<Record<string, string>>

/** A configured server that is this program, in a gateway that `close` ends. With `answers` the plan answers what it asks. */
export const connect = Effect.fnUntraced(function* (
  args: ReadonlyArray<string>,
  env: Variables = {},
  answers?: boolean
) {
  const command = yield* Schema.decodeEffect(McpCommand)({ name: "weather", command: process.execPath, args, env })
  const scope = yield* Scope.fork(yield* Effect.scope)
  const layer = SdkConfiguredServers.layer({ servers: new Map([["default", [command]]]), environment: { PATH } })
  const context = yield* Layer.build(Layer.provide(layer, platform)).pipe(Scope.provide(scope))
  const { ofPreset, statuses } = Context.get(context, ConfiguredServers)
  const [server] = ofPreset("default")
  if (server === undefined) return yield* Effect.die("no server")
  const connection = yield* server.connect(direct, answers)
  return { connection, connect: server.connect, statuses, close: Scope.close(scope, Exit.void) }
})

const program = fileURLToPath(new URL("Misbehaving.ts", import.meta.url))

/** A program that misbehaves like this, and leaves a file with one line for each start, and what it says there besides. */
export const serve = Effect.fnUntraced(function* (behaviour: string, env: Variables = {}) {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "bowline-mcp-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
  )
  const file = join(folder, "seen")
  const seen = () => (existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [])
  const pids = () =>
    seen()
      .filter((line) => /^\d+$/.test(line))
      .map(Number)
  return { ...(yield* connect([program, behaviour, file], env)), seen, pids }
})

/** A process that never started is an error: the signal 0 to the process 0 would say that the tests are alive. */
export const isAlive = (pid: number | undefined): boolean => {
  if (pid === undefined) throw new Error("No such process was started")
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Waits in real time, for a process: a `TestClock` does not move it. */
export const until = (isTrue: () => boolean) =>
  Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 10))).pipe(Effect.repeat({ until: isTrue }))
