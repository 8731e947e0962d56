import { PeerError } from "@bowline/domain/peer/PeerError"
import { McpClient } from "@bowline/runtime/remote/McpClient"
import { direct } from "@bowline/runtime/remote/PeerClient"
import { text } from "@bowline/testing/http/Host"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import { callTool as callOf, say } from "@bowline/testing/provider/Turn"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { all, layer, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, type Schema } from "effect"
import { TestClock } from "effect/testing"
import * as SdkMcpClient from "../../src/server/SdkMcpClient.ts"
import { callTool, serverAt, taskId } from "../server/call.ts"

const memory = SdkMcpClient.layer.pipe(Layer.provideMerge(MemoryNetwork.layer))

/** Plans whose model calls the tool `weather_forecast` once, in memory with the servers that they connect to. */
const plans = Layer.unwrap(
  Effect.map(Layer.build(memory), (context) => {
    const mcp = Layer.succeedContext(context)
    return Layer.merge(layer({ script: [[callOf("weather_forecast", {})], [say("ok")]], mcp }), mcp)
  })
)

const forecast = { name: "forecast", description: "The sky", inputSchema: { type: "object" } }
const list = () => ({ tools: [forecast] })
const sky = { type: "object", properties: { sky: { type: "string" } }, required: ["sky"] }

/** Runs a plan with this server to its end, for so long in virtual time. */
const run = Effect.fnUntraced(function* (url: string, fields: object = {}) {
  const server = { name: "weather", url: `${url}/mcp`, ...fields }
  const { frames } = yield* post({ question: "?", mcp_servers: [server] })
  return yield* readAll(frames)
})

/** Lets virtual time pass until the fiber is done. The client of the protocol waits for promises, which take turns of the process. */
const passUntilDone = Effect.fnUntraced(function* <A, E>(fiber: Fiber.Fiber<A, E>) {
  for (let steps = 0; steps < 100 && fiber.pollUnsafe() === undefined; steps++) {
    yield* TestClock.adjust("250 millis")
    yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
  }
  return yield* Fiber.join(fiber)
})

/** A server whose call is answered so, and that tells when the call has arrived. */
const serveCall = Effect.fnUntraced(function* (script: Omit<ScriptedMcpServer.McpScript, "list">) {
  const arrived = yield* Deferred.make<void>()
  const server = yield* ScriptedMcpServer.serve({
    list,
    ...script,
    call: (request, sent) =>
      Effect.andThen(Deferred.succeed(arrived, undefined), script.call?.(request, sent) ?? Effect.never)
  })
  const plan = yield* Effect.forkChild(run(server.url, { tool_timeout_ms: 5_000 }))
  yield* Deferred.await(arrived)
  return { server, events: yield* passUntilDone(plan) }
})

describe("a server that", () => {
  it.effect(
    "never answers a call is told to end it, and costs the call its time limit, though it ignores the cancel",
    () =>
      Effect.gen(function* () {
        const { events, server } = yield* serveCall({ ignoresCancels: true })
        const { duration_ms, error, state } = single(events, "task.finished")
        assert.deepStrictEqual([state, error?.code, duration_ms], ["timed-out", "timeout", 5_000])
        yield* server.cancelled
        assert.strictEqual(single(events, "final").text, "ok")
      }).pipe(Effect.scoped, Effect.provide(plans))
  )

  it.effect("tells of progress without an end is shown four times a second at most, until the time limit", () =>
    Effect.gen(function* () {
      const call: ScriptedMcpServer.McpScript["call"] = (request) =>
        Effect.sync(() => ScriptedMcpServer.endlessProgress(request))
      const { events } = yield* serveCall({ call })
      assert.strictEqual(single(events, "task.finished").state, "timed-out")
      const told = all(events, "task.progress").length
      assert.isAbove(told, 1)
      assert.isAtMost(told, 21)
    }).pipe(Effect.scoped, Effect.provide(plans))
  )

  it.effect("answers no handshake costs its tools after 10 s, and not the plan", () =>
    Effect.gen(function* () {
      const server = yield* ScriptedMcpServer.serve({ list, isSilent: true })
      const events = yield* passUntilDone(yield* Effect.forkChild(run(server.url)))
      const { code, data } = single(events, "notice")
      assert.deepStrictEqual([code, data], ["mcp_unreachable", { server: "weather", reason: "unreachable" }])
      // Its tool is unknown to the plan.
      assert.strictEqual(single(events, "task.finished").state, "invalid")
      assert.strictEqual(single(events, "final").text, "ok")
    }).pipe(Effect.scoped, Effect.provide(plans))
  )

  it.effect("answers no question at all keeps no connection behind the 10 s", () =>
    Effect.gen(function* () {
      const { requests, url } = yield* (yield* Network).serve(() => Effect.never)
      const events = yield* passUntilDone(yield* Effect.forkChild(run(url)))
      assert.strictEqual(single(events, "notice").code, "mcp_unreachable")
      assert.strictEqual(yield* requests.open, 0)
    }).pipe(Effect.scoped, Effect.provide(plans))
  )

  it.effect("cannot be reached costs the plan where it is required", () =>
    Effect.gen(function* () {
      const { code, data, retryable, stage } = single(yield* run("http://nowhere.test", { required: true }), "error")
      assert.deepStrictEqual([code, data?.["server"], stage], ["mcp_unreachable", "weather", "tool"])
      assert.isTrue(retryable)
      // A server that refuses the gateway will refuse it again.
      const refusing = yield* (yield* Network).serve(() => Effect.succeed(text(403, "no")))
      const refused = single(yield* run(refusing.url, { required: true }), "error")
      assert.deepStrictEqual([refused.data?.["reason"], refused.retryable], ["auth", false])
    }).pipe(Effect.scoped, Effect.provide(plans))
  )

  it.live(
    "gives structured content that does not match its schema gets the state invalid, and the text goes to the model",
    () =>
      Effect.gen(function* () {
        const content: Schema.Json = [{ type: "text", text: "clear" }]
        const server = yield* ScriptedMcpServer.serve({
          list: () => ({ tools: [{ ...forecast, outputSchema: sky }] }),
          call: (request) =>
            Effect.succeed(ScriptedMcpServer.result(request, { content, structuredContent: { sky: 7 } }))
        })
        const events = yield* run(server.url)
        const { error, state } = single(events, "task.finished")
        assert.strictEqual(single(events, "task.artifact").content, "clear")
        const message = "The structured content cannot be used. It does not match the schema. /sky: must be string"
        assert.deepStrictEqual([state, error], ["invalid", { code: "invalid", message }])
        const [, second] = yield* (yield* ScriptedProvider).asked.all
        assert.include(JSON.stringify(second?.messages), "clear")
      }).pipe(Effect.scoped, Effect.provide(plans))
  )

  it.live("gives a result of 100 MB fails the call at 8 MiB", () =>
    Effect.gen(function* () {
      const call = () => Effect.sync(() => ScriptedMcpServer.largeResult(100_000_000))
      const server = yield* ScriptedMcpServer.serve({ list, call })
      const { error, state } = single(yield* run(server.url), "task.finished")
      assert.deepStrictEqual([state, error?.code], ["failed", "response_too_large"])
    }).pipe(Effect.scoped, Effect.provide(plans))
  )

  it.live("gives a result of more than 10,000 blocks, or lists as many tools, is refused", () =>
    Effect.gen(function* () {
      const client = yield* McpClient
      const connect = (script: ScriptedMcpServer.McpScript) =>
        Effect.flatMap(ScriptedMcpServer.serve(script), ({ url }) => client.connect(serverAt(url), direct))
      const withBlocks = (count: number) => {
        const content = Array.from({ length: count }, () => ({ type: "text", text: "." }))
        const call: ScriptedMcpServer.McpScript["call"] = (request) =>
          Effect.sync(() => ScriptedMcpServer.result(request, { content }))
        return Effect.flatMap(connect({ list, call }), (connection) => callTool(connection, "forecast"))
      }
      assert.lengthOf((yield* withBlocks(10_000)).text, 19_999)
      assert.strictEqual((yield* Effect.flip(withBlocks(10_001))).reason._tag, "response_too_large")
      const tools = Array.from({ length: 10_001 }, (_, index) => ({ ...forecast, name: `t${index}` }))
      const many = yield* connect({ list: () => ({ tools }) })
      assert.strictEqual((yield* Effect.flip(many.tools)).reason._tag, "response_too_large")
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.live("lists pages without an end is left after 100 of them", () =>
    Effect.gen(function* () {
      const server = yield* ScriptedMcpServer.serve({ list: () => ({ tools: [], nextCursor: "more" }) })
      const { code, message } = single(yield* run(server.url), "notice")
      assert.deepStrictEqual(
        [code, message],
        [
          "mcp_unreachable",
          "The MCP server weather cannot be reached. The server's list of tools has more than 100 pages"
        ]
      )
      assert.strictEqual((yield* server.asked).filter((method) => method === "tools/list").length, 100)
    }).pipe(Effect.scoped, Effect.provide(plans))
  )

  it.live(
    "changes a description loses the tool if the request pins it and nobody is asked, and one that is allowed but not there is missing",
    () =>
      Effect.gen(function* () {
        const server = yield* ScriptedMcpServer.serve({ list })
        const pinned_tools = { forecast: `sha256:${"0".repeat(64)}` }
        const fields = { pinned_tools, allowed_tools: ["forecast", "tides"], approval: "never" }
        const events = yield* run(server.url, fields)
        assert.deepStrictEqual(single(events, "notice"), {
          code: "tool_missing",
          message: "Tools of the MCP server weather are missing: tides, forecast",
          data: {
            server: "weather",
            tools: [
              { tool: "tides", reason: "The server does not list it" },
              { tool: "forecast", reason: "Its description or a schema has changed" }
            ]
          }
        })
      }).pipe(Effect.scoped, Effect.provide(plans))
  )
})

const inputSchema = { type: "object" }

it.live("names tools as members of every object are named, and no pin is found for them", () =>
  Effect.gen(function* () {
    const tools = ["constructor", "toString", "__proto__", "forecast"].map((name) => ({ name, inputSchema }))
    const server = yield* ScriptedMcpServer.serve({ list: () => ({ tools }) })
    const pinned_tools = { other: `sha256:${"0".repeat(64)}` }
    const events = yield* run(server.url, { name: "constructor", pinned_tools, approval: "never" })
    assert.lengthOf(all(events, "notice"), 0)
    const [asked] = yield* (yield* ScriptedProvider).asked.all
    assert.lengthOf(asked?.tools ?? [], 4)
  }).pipe(Effect.scoped, Effect.provide(plans))
)

it.live("names a tool in more than 256 characters or none, or twice, and the plan goes on without these", () =>
  Effect.gen(function* () {
    const names = ["x".repeat(1_000_000), "", "forecast", "forecast"]
    const server = yield* ScriptedMcpServer.serve({
      list: () => ({ tools: names.map((name) => ({ name, inputSchema })) }),
      call: (request) => Effect.succeed(ScriptedMcpServer.result(request, { content: [] }))
    })
    const events = yield* run(server.url)
    assert.strictEqual(single(events, "task.finished").state, "completed")
    const told = JSON.stringify(all(events, "notice"))
    assert.include(told, '{"tool":"","reason":"Its name does not have 1..256 characters"}')
    assert.include(told, '{"tool":"forecast","reason":"Another tool of the plan has its name"}')
    assert.isBelow(told.length, 2_000)
  }).pipe(Effect.scoped, Effect.provide(plans))
)

it.live("lists thousands of tools that cannot be used, and the caller is told of 128 of them", () =>
  Effect.gen(function* () {
    const bad = { type: "object", properties: { city: { pattern: `(${"x".repeat(2_000)}` } } }
    const tools = Array.from({ length: 1_000 }, (_, index) => ({ name: `tool-${index}`, inputSchema: bad }))
    const server = yield* ScriptedMcpServer.serve({ list: () => ({ tools }) })
    const { data, message } = single(yield* run(server.url), "notice")
    assert.match(message, /tool-127, and 872 others$/)
    assert.isBelow(JSON.stringify(data).length, 128 * 700)
  }).pipe(Effect.scoped, Effect.provide(plans))
)

it.live("says a thousand times in each call that its tools have changed, and lists them once a step", () =>
  Effect.gen(function* () {
    const server = yield* ScriptedMcpServer.serve({
      list,
      call: (request) =>
        Effect.succeed(ScriptedMcpServer.announced(request, { content: [{ type: "text", text: "clear" }] }, 1_000))
    })
    assert.strictEqual(single(yield* run(server.url), "task.finished").state, "completed")
    assert.strictEqual((yield* server.asked).filter((method) => method === "tools/list").length, 2)
  }).pipe(Effect.scoped, Effect.provide(plans))
)

it.live("repeats a secret of its URL, and the caller does not get it", () =>
  Effect.gen(function* () {
    const { url } = yield* (yield* Network).serve((request) => Effect.succeed(text(400, `no ${String(request.url)}`)))
    const events = yield* run(url, { url: `${url}/mcp?api_key=planted%2Fsecret&mode=read` })
    assert.include(single(events, "notice").message, "/mcp?api_key=[redacted]&mode=read")
    const [status] = yield* (yield* McpClient).servers
    assert.strictEqual(status?.url, `${url}/mcp`)
    assert.notInclude(JSON.stringify([events, status]), "planted")
  }).pipe(Effect.scoped, Effect.provide(plans))
)

it.live("asks a thousand times in a call whether the gateway is there, and gets one reply at a time", () =>
  Effect.gen(function* () {
    const server = yield* ScriptedMcpServer.serve({
      list,
      ignoresReplies: true,
      call: (request) =>
        Effect.succeed(ScriptedMcpServer.asked(request, { content: [{ type: "text", text: "clear" }] }, 1_000))
    })
    assert.strictEqual(single(yield* run(server.url), "task.finished").state, "completed")
    const replies = (yield* server.requests).filter(({ body }) => body.includes("result"))
    assert.lengthOf(replies, 1)
  }).pipe(Effect.scoped, Effect.provide(plans))
)

it.live("may have other tools where it has forgotten the session", () =>
  Effect.gen(function* () {
    const call: ScriptedMcpServer.McpScript["call"] = (request) =>
      Effect.succeed(ScriptedMcpServer.result(request, { content: [{ type: "text", text: "clear" }] }))
    const server = yield* ScriptedMcpServer.serve({ list, call })
    const connection = yield* (yield* McpClient).connect(serverAt(server.url), direct)
    yield* callTool(connection, "forecast", {})
    assert.isFalse(yield* connection.hasChanged)
    yield* server.forgetSessions
    const [tool] = [forecast].map((tool) => ({ ...tool, outputSchema: null, isDestructive: false }))
    assert.isDefined(tool)
    if (tool !== undefined) yield* connection.call({ tool, taskId, input: {} }, () => Effect.void)
    assert.isTrue(yield* connection.hasChanged)
  }).pipe(Effect.scoped, Effect.provide(memory))
)

it.live("lists its tools in a new session where it has forgotten the other one", () =>
  Effect.gen(function* () {
    const server = yield* ScriptedMcpServer.serve({ list })
    const connection = yield* (yield* McpClient).connect(serverAt(server.url), direct)
    const tools = yield* connection.tools
    yield* server.forgetSessions
    assert.deepStrictEqual(yield* connection.tools, tools)
    assert.isFalse(yield* connection.hasChanged)
    const asked = yield* server.asked
    assert.lengthOf(
      asked.filter((method) => method === "initialize"),
      2
    )
  }).pipe(Effect.scoped, Effect.provide(memory))
)

it.live(
  "opens a new session where the server has forgotten it, and makes the call once more, which was not taken",
  () =>
    Effect.gen(function* () {
      const call: ScriptedMcpServer.McpScript["call"] = (request) =>
        Effect.succeed(ScriptedMcpServer.result(request, { content: [{ type: "text", text: "clear" }] }))
      const server = yield* ScriptedMcpServer.serve({ list, call })
      const connection = yield* (yield* McpClient).connect(serverAt(server.url), direct)
      const [tool] = yield* connection.tools
      assert.isDefined(tool)
      yield* server.forgetSessions
      const again = { ...connection, tools: Effect.succeed([tool]) }
      assert.strictEqual((yield* callTool(again, "forecast", {})).text, "clear")
      const asked = yield* server.asked
      assert.deepStrictEqual(
        asked.filter((method) => method === "initialize" || method === "tools/call"),
        ["initialize", "initialize", "tools/call"]
      )
    }).pipe(Effect.scoped, Effect.provide(memory))
)

it.live("has the answer of a call that it took before it forgot the session of another one", () =>
  Effect.gen(function* () {
    const arrived = yield* Deferred.make<void>()
    const forgotten = yield* Deferred.make<void>()
    let calls = 0
    const call: ScriptedMcpServer.McpScript["call"] = Effect.fnUntraced(function* (request) {
      if (calls++ === 0) {
        yield* Deferred.succeed(arrived, undefined)
        yield* Deferred.await(forgotten)
      }
      return ScriptedMcpServer.result(request, { content: [{ type: "text", text: "clear" }] })
    })
    const server = yield* ScriptedMcpServer.serve({ list, call })
    const connection = yield* (yield* McpClient).connect(serverAt(server.url), direct)
    const tools = yield* connection.tools
    const known = { ...connection, tools: Effect.succeed(tools) }
    const first = yield* Effect.forkChild(callTool(known, "forecast", {}))
    yield* Deferred.await(arrived)
    yield* server.forgetSessions
    assert.strictEqual((yield* callTool(known, "forecast", {})).text, "clear")
    yield* Deferred.succeed(forgotten, undefined)
    assert.strictEqual((yield* Fiber.join(first)).text, "clear")
  }).pipe(Effect.scoped, Effect.provide(memory))
)

it.live("fails a call that a session without an end loses twice", () =>
  Effect.gen(function* () {
    const server = yield* ScriptedMcpServer.serve({
      list,
      call: () => Effect.succeed({ status: 404, headers: {}, body: ScriptedMcpServer.largeResult(0).body })
    })
    const connection = yield* (yield* McpClient).connect(serverAt(server.url), direct)
    const failed = yield* Effect.flip(callTool(connection, "forecast", {}))
    assert.instanceOf(failed, PeerError)
    assert.deepInclude(failed.reason, { _tag: "http", status: 404 })
    assert.strictEqual((yield* server.asked).filter((method) => method === "tools/call").length, 2)
  }).pipe(Effect.scoped, Effect.provide(memory))
)
