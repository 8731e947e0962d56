import { McpClient } from "@bowline/runtime/remote/McpClient"
import { direct } from "@bowline/runtime/remote/PeerClient"
import { Fault, text, type HostResponse } from "@bowline/testing/http/Host"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Schema, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as SdkMcpClient from "../../src/server/SdkMcpClient.ts"
import { callTool, serverAt } from "./call.ts"

const memory = SdkMcpClient.layer.pipe(Layer.provideMerge(MemoryNetwork.layer))

const name = "research"
const inputSchema = { type: "object" }

const Message = Schema.fromJsonString(
  Schema.Struct({
    id: Schema.optionalKey(Schema.Json),
    method: Schema.String,
    params: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
  })
)

const turns = Effect.promise(() => new Promise((resolve) => setImmediate(resolve))).pipe(Effect.repeat({ times: 20 }))

/** Serves the tool, and tells of each message of its client: its session, its method, and the number or the task that it is about. */
const serve = Effect.fnUntraced(function* (script: Omit<ScriptedMcpServer.McpScript, "list">, tool: object = {}) {
  const { requests, url } = yield* ScriptedMcpServer.serve({
    list: () => ({ tools: [{ name, inputSchema, ...tool }] }),
    ...script
  })
  const said = Effect.map(requests, (all) =>
    all.flatMap(({ body, headers, method: verb }) => {
      if (verb === "DELETE") return [{ session: headers["mcp-session-id"], method: "end of the session", about: null }]
      const message = Schema.decodeOption(Message)(body)
      if (message._tag === "None") return []
      const { id = null, method, params = {} } = message.value
      const about = params["requestId"] ?? params["taskId"] ?? id
      return [{ session: headers["mcp-session-id"], method, about }]
    })
  )
  return { said, url }
})

const methods = (said: ReadonlyArray<{ readonly method: string }>) => said.map(({ method }) => method)

const events = (body: HostResponse["body"]): HostResponse => ({
  status: 200,
  headers: { "content-type": "text/event-stream" },
  body
})

const bytes = (text: string) => Stream.succeed(new TextEncoder().encode(text))
const progress = bytes(`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n\n`)
const reset = Stream.fail(new Fault({ kind: "reset" }))
const opening = { status: 200, headers: { "content-type": "application/json" } }

const losses: ReadonlyArray<readonly [string, Effect.Effect<HostResponse, Fault>]> = [
  ["is reset before an answer", Effect.fail(new Fault({ kind: "reset" }))],
  ["is reset in the middle of a JSON answer", Effect.succeed({ ...opening, body: Stream.concat(bytes("{"), reset) })],
  ["is reset in the middle of its stream", Effect.succeed(events(Stream.concat(progress, reset)))],
  ["ends its stream without an answer", Effect.succeed(events(progress))],
  ["is lost behind a proxy", Effect.succeed(text(504, "upstream timed out"))]
]

describe("a call whose connection is lost", () => {
  it.effect.each(losses)("%s: fails at once, and its server is told to cancel it in the same session", ([, answer]) =>
    Effect.gen(function* () {
      const { said, url } = yield* serve({ call: () => answer })
      const connection = yield* (yield* McpClient).connect(serverAt(url), direct)
      const call = yield* Effect.forkChild(callTool(connection, name), { startImmediately: true })
      yield* turns
      assert.isDefined(call.pollUnsafe())
      const { reason } = yield* Effect.flip(Fiber.join(call))
      assert.include(["unreachable", "http"], reason._tag)
      const all = yield* said
      const made = all.find(({ method }) => method === "tools/call")
      assert.deepStrictEqual(
        all.filter(({ method }) => method === "notifications/cancelled"),
        [{ session: "1", method: "notifications/cancelled", about: made?.about ?? "" }]
      )
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("is cancelled before the session ends, and a server that ignores the cancel holds that up for 5 s", () =>
    Effect.gen(function* () {
      const { said, url } = yield* serve({ call: () => Effect.succeed(events(progress)), ignoresCancels: true })
      const scope = yield* Scope.make()
      const connection = yield* Effect.provideService(
        (yield* McpClient).connect(serverAt(url), direct),
        Scope.Scope,
        scope
      )
      yield* Effect.flip(callTool(connection, name))
      yield* Scope.close(scope, Exit.void)
      yield* turns
      assert.deepStrictEqual(methods(yield* said).slice(-1), ["notifications/cancelled"])
      yield* TestClock.adjust("5 seconds")
      yield* turns
      assert.deepStrictEqual(methods(yield* said).slice(-2), ["notifications/cancelled", "end of the session"])
    }).pipe(Effect.scoped, Effect.provide(memory))
  )
})

it.effect.each([
  [
    "a result",
    (request: Parameters<typeof ScriptedMcpServer.result>[0]) => ScriptedMcpServer.asked(request, { content: [] }, 1)
  ],
  ["an error", () => text(400, "no")]
] as const)("a call that has %s is not cancelled", ([, answer]) =>
  Effect.gen(function* () {
    const { said, url } = yield* serve({ call: (request) => Effect.succeed(answer(request)) })
    const connection = yield* (yield* McpClient).connect(serverAt(url), direct)
    yield* Effect.exit(callTool(connection, name))
    yield* turns
    assert.notInclude(methods(yield* said), "notifications/cancelled")
  }).pipe(Effect.scoped, Effect.provide(memory))
)

describe("a call that is interrupted before its server has named the task", () => {
  const task = { taskId: "t-1", status: "working", ttl: null, createdAt: "2026-07-28T00:00:00Z" }

  /** Interrupts the call as its plan would, and ends the link. */
  const interrupted = Effect.gen(function* () {
    const answer = yield* Deferred.make<void>()
    const { said, url } = yield* serve(
      {
        runsTasks: true,
        call: (request) => Effect.as(Deferred.await(answer), ScriptedMcpServer.result(request, { task }))
      },
      { execution: { taskSupport: "required" } }
    )
    const client = yield* McpClient
    const call = yield* client.connect(serverAt(url), direct).pipe(
      Effect.flatMap((connection) => callTool(connection, name)),
      Effect.scoped,
      Effect.forkChild({ startImmediately: true })
    )
    yield* turns
    assert.include(methods(yield* said), "tools/call")
    yield* Fiber.interrupt(call)
    return { answer, said }
  })

  it.effect("has the task cancelled as soon as it is named, and nothing waits for that", () =>
    Effect.gen(function* () {
      const { answer, said } = yield* interrupted
      yield* turns
      assert.strictEqual(methods(yield* said).at(-1), "tools/call")
      yield* Deferred.succeed(answer, undefined)
      yield* turns
      const told = (yield* said).slice(-2)
      assert.deepStrictEqual(told, [
        { session: "1", method: "tasks/cancel", about: "t-1" },
        { session: "1", method: "end of the session", about: null }
      ])
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("is cancelled by its number where the server does not name the task within 5 s", () =>
    Effect.gen(function* () {
      const { said } = yield* interrupted
      yield* TestClock.adjust("5 seconds")
      yield* turns
      const all = yield* said
      assert.deepStrictEqual(methods(all).slice(-2), ["notifications/cancelled", "end of the session"])
      assert.strictEqual(all.at(-2)?.about, all.find(({ method }) => method === "tools/call")?.about)
    }).pipe(Effect.scoped, Effect.provide(memory))
  )
})
