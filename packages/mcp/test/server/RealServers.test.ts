import { McpClient } from "@bowline/runtime/mcp/McpClient"
import { direct } from "@bowline/runtime/peer/PeerClient"
import type { Host } from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import * as SdkMcpClient from "../../src/server/SdkMcpClient.ts"
import { callTool, serverAt, taskId } from "./call.ts"
import { ofSdk1, ofSdk2, type Seen } from "./Servers.ts"

const sockets = SdkMcpClient.layer.pipe(
  Layer.provide(NodeHttpClient.layerUndici),
  Layer.provideMerge(LoopbackNetwork.layer)
)

const connect = Effect.fnUntraced(function* (serve: (seen: Seen) => Host) {
  const seen: Seen = { calls: [], ended: [], waiting: 0 }
  const { requests, url } = yield* (yield* Network).serve(serve(seen))
  const connection = yield* (yield* McpClient).connect(serverAt(url), direct)
  return { connection, requests, seen, url }
})

const until = (isTrue: () => boolean) => Effect.repeat(Effect.sleep("5 millis"), { until: isTrue })

describe.each([
  ["2.x", ofSdk2, "2026-07-28"],
  ["1.x", ofSdk1, "2025-11-25"]
] as const)("a server of the official SDK %s", (_, serve, revision) => {
  it.live("lists its tools and is called, in the newest revision that it speaks", () =>
    Effect.gen(function* () {
      const { connection, seen, url } = yield* connect(serve)
      const tools = yield* connection.tools
      assert.deepStrictEqual(
        tools.map(({ name }) => name),
        ["forecast", "fail", "wait"]
      )
      const result = yield* callTool(connection, "forecast")
      assert.deepStrictEqual(result, { state: "completed", text: "clear in Oslo", structured: { sky: "clear" } })
      assert.nestedPropertyVal(seen.calls[0], "meta.bowline/task_id", taskId)
      assert.deepStrictEqual((yield* callTool(connection, "fail")).state, "failed")
      const client = yield* McpClient
      assert.deepStrictEqual(yield* client.servers, [{ url: `${url}/mcp`, revision, error: null }])
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.live("is told when a call is interrupted", () =>
    Effect.gen(function* () {
      const { connection, requests, seen } = yield* connect(serve)
      const begun = (yield* requests.all).length
      const call = yield* Effect.forkChild(callTool(connection, "wait"))
      while ((yield* requests.all).length < begun + 2) yield* Effect.sleep("5 millis")
      yield* Effect.sleep("50 millis")
      yield* Fiber.interrupt(call)
      yield* until(() => seen.ended.length > 0)
      assert.deepStrictEqual(seen.ended, ["wait"])
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )
})

it.live("tells the progress of a call", () =>
  Effect.gen(function* () {
    const { connection } = yield* connect(ofSdk1)
    const told = yield* Deferred.make<string>()
    const onProgress = (message: string) => Effect.asVoid(Deferred.succeed(told, message))
    yield* Effect.forkScoped(callTool(connection, "wait", { city: "Oslo" }, onProgress))
    assert.strictEqual(yield* Deferred.await(told), "1/3 looking up")
  }).pipe(Effect.scoped, Effect.provide(sockets))
)
