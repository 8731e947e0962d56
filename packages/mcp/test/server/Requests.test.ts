import { EnvironmentSecrets } from "@bowline/runtime/config/EnvironmentSecrets"
import { McpClient } from "@bowline/runtime/remote/McpClient"
import { direct } from "@bowline/runtime/remote/PeerClient"
import { json, text, type Host } from "@bowline/testing/http/Host"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { Network } from "@bowline/testing/http/Network"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Option, Redacted, Schedule, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as SdkMcpClient from "../../src/server/SdkMcpClient.ts"
import { callTool, serverAt, taskId } from "./call.ts"
import { nothingSeen, ofSdk1, ofSdk2, type Seen } from "./Servers.ts"

const secrets = Layer.succeed(EnvironmentSecrets, {
  isAllowed: () => true,
  get: () => Effect.succeed(Option.some(Redacted.make("s3cret")))
})
const memory = SdkMcpClient.layer.pipe(Layer.provideMerge(Layer.merge(MemoryNetwork.layer, secrets)))

const eras = [
  ["2.x", ofSdk2, "2026-07-28"],
  ["1.x", ofSdk1, "2025-11-25"]
] as const

const serve = Effect.fnUntraced(function* (hostOf: (seen: Seen) => Host) {
  const seen = nothingSeen()
  const { requests, url } = yield* (yield* Network).serve(hostOf(seen))
  return { requests, seen, url }
})

/** Waits for turns of the process, which promises take; no virtual time passes. */
const until = (isTrue: Effect.Effect<boolean>) =>
  Effect.promise(() => new Promise((resolve) => setImmediate(resolve))).pipe(
    Effect.andThen(isTrue),
    Effect.repeat({ until: (done) => done, schedule: Schedule.recurs(1_000) })
  )

describe.each(eras)("a server of the SDK %s", (_, hostOf, revision) => {
  it.effect("gets the trace and the route of the plan, and nothing about its caller", () =>
    Effect.gen(function* () {
      const { requests, seen, url } = yield* serve(hostOf)
      const traceId = yield* Effect.gen(function* () {
        const client = yield* McpClient
        const connection = yield* client.connect(serverAt(url), { hops: 2, via: ["gw-1", "gw-2"] })
        yield* callTool(connection, "forecast")
        return (yield* Effect.currentSpan).traceId
      }).pipe(Effect.withSpan("plan"))
      const trace = new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`)
      for (const { headers } of yield* requests.all) {
        assert.deepInclude(headers, { "x-bowline-hops": "2", "x-bowline-via": "gw-1,gw-2" })
        assert.match(headers["traceparent"] ?? "", trace)
      }
      const [call] = seen.calls as ReadonlyArray<{ readonly meta: Readonly<Record<string, string>> }>
      assert.match(call?.meta["traceparent"] ?? "", trace)
      const {
        "bowline/task_id": task,
        "bowline/idempotency_key": key,
        progressToken: __,
        traceparent: ___,
        ...others
      } = call?.meta ?? {}
      assert.deepStrictEqual([task, key], [taskId, taskId])
      assert.isTrue(Object.keys(others).every((key) => key.startsWith("io.modelcontextprotocol/")))
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("gets a trace that nobody records with a call that is a part of none", () =>
    Effect.gen(function* () {
      const { seen, url } = yield* serve(hostOf)
      const connection = yield* (yield* McpClient).connect(serverAt(url), direct)
      yield* callTool(connection, "forecast")
      const [call] = seen.calls as ReadonlyArray<{ readonly meta: Readonly<Record<string, string>> }>
      assert.match(call?.meta["traceparent"] ?? "", /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/)
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("is told at once when a call is interrupted: no time has passed", () =>
    Effect.gen(function* () {
      const { requests, seen, url } = yield* serve(hostOf)
      const connection = yield* (yield* McpClient).connect(serverAt(url), direct)
      const isCall = ({ body }: { readonly body: string }) => body.includes("tools/call")
      const call = yield* Effect.forkChild(callTool(connection, "wait"), { startImmediately: true })
      yield* until(Effect.map(requests.all, (all) => all.some(isCall) && seen.waiting > 0))
      yield* Fiber.interrupt(call)
      yield* until(Effect.sync(() => seen.ended.length > 0))
      assert.deepStrictEqual(seen.ended, ["wait"])
      const isCancelled = (yield* requests.all).some(({ body }) => body.includes("notifications/cancelled"))
      // Without a handshake the closed stream is the cancel.
      assert.strictEqual(isCancelled, revision === "2025-11-25")
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("is asked for its revision once an hour", () =>
    Effect.gen(function* () {
      const { requests, url } = yield* serve(hostOf)
      const client = yield* McpClient
      const connect = Effect.scoped(client.connect(serverAt(url), direct))
      const probes = Effect.map(
        requests.all,
        (all) => all.filter(({ headers }) => headers["mcp-method"] === "server/discover").length
      )
      yield* connect
      const first = yield* probes
      assert.strictEqual(first, 1)
      yield* TestClock.adjust("59 minutes")
      yield* connect
      // A server of the new era is asked at each connection: that is its handshake.
      const known = revision === "2025-11-25" ? 1 : 2
      assert.strictEqual(yield* probes, known)
      yield* TestClock.adjust("2 minutes")
      yield* connect
      assert.strictEqual(yield* probes, known + 1)
    }).pipe(Effect.scoped, Effect.provide(memory))
  )
})

it.effect.each([
  ["a server that has become new", ofSdk1, (seen: Seen) => ofSdk2(seen, "reject"), "2026-07-28"],
  ["a server that has become old", ofSdk2, ofSdk1, "2025-11-25"]
] as const)("%s is asked anew where it refuses the revision that it spoke before", ([, before, after, revision]) =>
  Effect.gen(function* () {
    const seen = nothingSeen()
    let current = before(seen)
    const { url } = yield* (yield* Network).serve((request) => current(request))
    const client = yield* McpClient
    yield* Effect.scoped(client.connect(serverAt(url), direct))
    current = after(seen)
    const connection = yield* client.connect(serverAt(url), direct)
    assert.strictEqual((yield* callTool(connection, "forecast")).text, "clear in Oslo")
    assert.deepStrictEqual(yield* client.servers, [{ url: `${url}/mcp`, revision, error: null, error_at: null }])
  }).pipe(Effect.scoped, Effect.provide(memory))
)

describe("a server that wants tokens", () => {
  const serveWithTokens = Effect.fnUntraced(function* (accepted: (token: string) => boolean) {
    const network = yield* Network
    let count = 0
    const tokens = yield* network.serve(() =>
      Effect.succeed(json(200, { access_token: `token-${++count}`, token_type: "Bearer", expires_in: 3_600 }))
    )
    const seen = nothingSeen()
    const inner = ofSdk1(seen)
    const { url } = yield* network.serve((request) =>
      accepted(request.headers["authorization"]?.replace(/^Bearer /, "") ?? "")
        ? inner(request)
        : Effect.succeed(text(401, "expired"))
    )
    const auth = {
      type: "oauth2_client_credentials",
      token_url: `${tokens.url}/token`,
      client_id: "bowline",
      client_secret_env_var: "SECRET"
    }
    return { tokens: tokens.requests, server: serverAt(url, { auth }), url }
  })

  it.effect("gets them with its URL as the resource, and a new one after a 401", () =>
    Effect.gen(function* () {
      let valid = "token-1"
      const { server, tokens, url } = yield* serveWithTokens((token) => token === valid)
      const connection = yield* (yield* McpClient).connect(server, direct)
      valid = "token-2"
      assert.strictEqual((yield* callTool(connection, "forecast")).text, "clear in Oslo")
      const bodies = (yield* tokens.all).map(({ body }) => Object.fromEntries(new URLSearchParams(body)))
      const asked = { grant_type: "client_credentials", resource: `${url}/mcp` }
      assert.deepStrictEqual(bodies, [asked, asked])
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("and takes none of them fails as auth, after one more token", () =>
    Effect.gen(function* () {
      const { server, tokens } = yield* serveWithTokens(() => false)
      const { reason } = yield* Effect.flip((yield* McpClient).connect(server, direct))
      assert.deepInclude(reason, { _tag: "auth", status: 401 })
      assert.notInclude(reason.message, "token-")
      assert.isAtMost((yield* tokens.all).length, 2)
    }).pipe(Effect.scoped, Effect.provide(memory))
  )
})

it.effect(
  "a request that the server refuses is not blamed on the stream for its messages, which has failed before",
  () =>
    Effect.gen(function* () {
      let failed = 0
      const huge = Stream.fromIterable(Array.from({ length: 10 }, () => new Uint8Array(2 ** 20).fill(120)))
      const { url } = yield* (yield* Network).serve(({ body, method: verb }) => {
        if (verb === "GET") {
          const stream = Stream.ensuring(
            huge,
            Effect.sync(() => failed++)
          )
          return Effect.succeed({ status: 200, headers: { "content-type": "text/event-stream" }, body: stream })
        }
        const { id = null, method } = JSON.parse(body) as { readonly id?: number; readonly method: string }
        const answer = (fields: object) => Effect.succeed(json(200, { jsonrpc: "2.0", id, ...fields }))
        if (method === "server/discover") return Effect.succeed(text(400, ""))
        if (method === "tools/list") return answer({ error: { code: -32_000, message: "No tools today" } })
        if (method !== "initialize") return Effect.succeed(text(202, ""))
        const serverInfo = { name: "refuses", version: "1.0.0" }
        return answer({ result: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo } })
      })
      const connection = yield* (yield* McpClient).connect(serverAt(url), direct)
      yield* until(Effect.sync(() => failed > 0))
      const { reason } = yield* Effect.flip(connection.tools)
      assert.deepInclude(reason, { _tag: "rpc", code: -32_000 })
    }).pipe(Effect.scoped, Effect.provide(memory))
)
