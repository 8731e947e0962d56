import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { createServer } from "node:http"
import { once } from "node:events"
import { serveAll } from "../../src/demo/DemoPeers.ts"
import { post, send } from "../http/RunningGateway.ts"

interface Reply {
  readonly result?: {
    readonly id: string
    readonly status: { readonly state: string; readonly message?: { readonly parts: ReadonlyArray<{ text: string }> } }
    readonly artifacts?: ReadonlyArray<{ readonly parts: ReadonlyArray<{ text: string }> }>
  }
  readonly error?: { readonly code: number }
}

/** One request of A2A 0.3, which needs no header. */
const call = (endpoint: string, method: string, params: object) =>
  Effect.map(post(endpoint, { jsonrpc: "2.0", id: 1, method, params }), ({ body }) => body as Reply)

const message = { kind: "message", role: "user", messageId: "1", parts: [{ kind: "text", text: "Hello" }] }

it.effect("the peers of the demo answer at once, after two seconds, and never, and are called demo", () =>
  Effect.gen(function* () {
    const peers = yield* serveAll
    assert.deepStrictEqual(
      peers.map(({ name }) => name),
      ["prompt", "slow", "stuck"]
    )
    const states = Effect.fnUntraced(function* (endpoint: string) {
      const sent = yield* call(endpoint, "message/send", { message })
      yield* TestClock.adjust("2 seconds")
      const later = yield* call(endpoint, "tasks/get", { id: sent.result?.id })
      yield* TestClock.adjust("1 day")
      const atLast = yield* call(endpoint, "tasks/get", { id: sent.result?.id })
      return [sent, later, atLast].map(({ result }) => result?.status.state)
    })
    assert.deepStrictEqual(yield* Effect.forEach(peers, ({ endpoint }) => states(endpoint)), [
      ["completed", "completed", "completed"],
      ["working", "completed", "completed"],
      ["working", "working", "working"]
    ])
    for (const { endpoint } of peers) {
      const card = yield* send(`${endpoint}.well-known/agent-card.json`)
      assert.match(card.text, /Demo peer.*"skills":\[\{.*Demo/)
    }
  })
)

it.effect("a cancelled task of the demo is over, and cannot be cancelled again", () =>
  Effect.gen(function* () {
    const endpoint = (yield* serveAll)[2]?.endpoint ?? ""
    const id = (yield* call(endpoint, "message/send", { message })).result?.id
    assert.strictEqual((yield* call(endpoint, "tasks/cancel", { id })).result?.status.state, "canceled")
    assert.strictEqual((yield* call(endpoint, "tasks/cancel", { id })).error?.code, -32002)
    yield* TestClock.adjust("1 day")
    assert.strictEqual((yield* call(endpoint, "tasks/get", { id })).result?.status.state, "canceled")
    assert.strictEqual((yield* call(endpoint, "tasks/get", { id: "another" })).error?.code, -32001)
    assert.strictEqual((yield* call(endpoint, "message/stream", { message })).error?.code, -32004)
    assert.strictEqual((yield* call(endpoint, "message/send", {})).error?.code, -32602)
    assert.strictEqual((yield* call(endpoint, "no/such", {})).error?.code, -32601)
  })
)

it.effect("a client of A2A 1.0 gets the answer of the demo in its spelling", () =>
  Effect.gen(function* () {
    const endpoint = (yield* serveAll)[1]?.endpoint ?? ""
    const rpc = (method: string, params: object) =>
      Effect.map(
        post(endpoint, { jsonrpc: "2.0", id: "a", method, params }, { "a2a-version": "1.0" }),
        ({ body }) => body["result"] as { readonly task: NonNullable<Reply["result"]> }
      )
    const { task } = yield* rpc("SendMessage", {
      message: { role: "ROLE_USER", messageId: "1", parts: [{ text: "knots" }] }
    })
    assert.strictEqual(task.status.state, "TASK_STATE_WORKING")
    assert.strictEqual(task.status.message?.parts[0]?.text, "Demo: reading the sources")
    yield* TestClock.adjust("2 seconds")
    const done = (yield* rpc("GetTask", { id: task.id })) as unknown as typeof task
    assert.strictEqual(done.status.state, "TASK_STATE_COMPLETED")
    assert.strictEqual(done.artifacts?.[0]?.parts[0]?.text, "Demo report, made in two seconds, on: knots")
  })
)

it.effect("a peer of the demo whose port is taken gets another one", () =>
  Effect.gen(function* () {
    // Whoever has the port, nobody else gets it now.
    yield* Effect.acquireRelease(
      Effect.promise(async () => {
        const server = createServer()
        const listening = once(server, "listening")
        server.listen(3781, "127.0.0.1")
        await listening.catch(() => undefined)
        return server
      }),
      (server) => Effect.sync(() => server.close())
    )
    const endpoint = (yield* serveAll)[0]?.endpoint ?? ""
    assert.notStrictEqual(new URL(endpoint).port, "3781")
    assert.strictEqual((yield* call(endpoint, "message/send", { message })).result?.status.state, "completed")
  })
)
