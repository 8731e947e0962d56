import { McpClient, type McpConnection } from "@bowline/runtime/remote/McpClient"
import { direct } from "@bowline/runtime/remote/PeerClient"
import type { Host } from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import type { RequestLog } from "@bowline/testing/unstable/http/RequestLog"
import { Network } from "@bowline/testing/http/Network"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import * as SdkMcpClient from "../../src/server/SdkMcpClient.ts"
import { callTool, serverAt, taskId } from "./call.ts"
import { nothingSeen, ofSdk1, ofSdk2, type Seen } from "./Servers.ts"

const sockets = SdkMcpClient.layer.pipe(
  Layer.provide(NodeHttpClient.layerUndici),
  Layer.provideMerge(LoopbackNetwork.layer)
)

const connect = Effect.fnUntraced(function* (serve: (seen: Seen) => Host) {
  const seen = nothingSeen()
  const { requests, url } = yield* (yield* Network).serve(serve(seen))
  const connection = yield* (yield* McpClient).connect(serverAt(url), direct)
  return { connection, requests, seen, url }
})

const untilOpen = (requests: RequestLog, isEnough: (open: number) => boolean) =>
  Effect.repeat(Effect.delay(requests.open, "5 millis"), { until: isEnough })

/** Has the server tell of changes, from after the first list of its tools on. */
const listen = Effect.fnUntraced(function* (connection: McpConnection, seen: Seen, revision: string) {
  yield* seen.mayListen.close
  yield* connection.tools
  yield* seen.mayListen.open
  yield* until(() => seen.listening > 0)
  // What has changed between the list and the answer to who listens is lost. A server of a session tells it by itself.
  if (revision === newest) yield* Effect.andThen(untilChanged(connection), connection.tools)
  assert.isFalse(yield* connection.hasChanged)
})

const untilChanged = (connection: McpConnection) =>
  Effect.repeat(Effect.delay(connection.hasChanged, "5 millis"), { until: (hasChanged) => hasChanged })

const until = (isTrue: () => boolean) => Effect.repeat(Effect.sleep("5 millis"), { until: isTrue })

const newest = "2026-07-28"

describe.each([
  ["2.x", ofSdk2, newest],
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
      assert.deepStrictEqual(yield* client.servers, [{ url: `${url}/mcp`, revision, error: null, error_at: null }])
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.live("tells that its tools have changed", () =>
    Effect.gen(function* () {
      const { connection, requests, seen } = yield* connect(serve)
      yield* listen(connection, seen, revision)
      const asked = (yield* requests.all).length
      seen.hasMore = true
      for (const announce of seen.announce) announce()
      yield* untilChanged(connection)
      assert.lengthOf(yield* requests.all, asked)
      assert.include(
        (yield* connection.tools).map(({ name }) => name),
        "more"
      )
      assert.isFalse(yield* connection.hasChanged)
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.live("has no request open any more once its plan is over", () =>
    Effect.gen(function* () {
      const { requests } = yield* Effect.scoped(
        Effect.tap(connect(serve), ({ connection, requests }) =>
          Effect.andThen(
            connection.tools,
            untilOpen(requests, (open) => open > 0)
          )
        )
      )
      yield* untilOpen(requests, (open) => open === 0)
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.live("is told when a call is interrupted", () =>
    Effect.gen(function* () {
      const { connection, seen } = yield* connect(serve)
      const call = yield* Effect.forkChild(callTool(connection, "wait"))
      yield* until(() => seen.waiting > 0)
      yield* Fiber.interrupt(call)
      yield* until(() => seen.ended.length > 0)
      assert.deepStrictEqual(seen.ended, ["wait"])
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )
})

it.live("listens again to a server that has hung up, which may have changed its tools meanwhile", () =>
  Effect.gen(function* () {
    const { connection, requests, seen } = yield* connect(ofSdk2)
    yield* listen(connection, seen, newest)
    for (const hangUp of seen.hangUp) hangUp()
    yield* untilChanged(connection)
    yield* listen(connection, seen, newest)
    for (const announce of seen.announce) announce()
    yield* untilChanged(connection)
    const asked = (yield* requests.all).filter(({ body }) => body.includes("subscriptions/listen"))
    assert.lengthOf(asked, 2)
  }).pipe(Effect.scoped, Effect.provide(sockets))
)

it.live("tells the progress of a call", () =>
  Effect.gen(function* () {
    const { connection } = yield* connect(ofSdk1)
    const told = yield* Deferred.make<string>()
    const onProgress = (message: string) => Effect.asVoid(Deferred.succeed(told, message))
    yield* Effect.forkScoped(callTool(connection, "wait", { city: "Oslo" }, onProgress))
    assert.strictEqual(yield* Deferred.await(told), "1/3 looking up")
  }).pipe(Effect.scoped, Effect.provide(sockets))
)
