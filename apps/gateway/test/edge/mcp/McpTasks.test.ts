import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { until } from "@bowline/testing/http/Move"
import { completes, produces } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Schedule } from "effect"
import { join } from "node:path"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { post, send, start, stores } from "../../http/RunningGateway.ts"

const extension = "io.modelcontextprotocol/tasks"

interface Task {
  readonly taskId: string
  readonly status: string
  readonly resultType: string
  readonly result?: { readonly isError: boolean; readonly structuredContent: { readonly text: string } }
  readonly requestState?: string
  readonly inputRequests?: Readonly<Record<string, { readonly method: string }>>
}

/** What the gateway answers to a request of 2026-07-28 from a client that can do this. */
const request = (
  url: string,
  method: string,
  params: object,
  { capabilities = { extensions: { [extension]: {} } }, headers = {} }: { capabilities?: object; headers?: object } = {}
) => {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": capabilities
  }
  const name = (params as { readonly name?: string }).name
  return post(
    `${url}/mcp`,
    { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } },
    {
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": method,
      ...(name !== undefined && { "mcp-name": name }),
      ...headers
    }
  )
}

const taskOf = ({ body }: { readonly body: Readonly<Record<string, unknown>> }) => body["result"] as Task

const errorOf = ({ body, status }: { readonly body: Readonly<Record<string, unknown>>; readonly status: number }) => [
  status,
  (body["error"] as { readonly code?: number } | undefined)?.code
]

const ask = { name: "plan", arguments: { question: "?", wait_ms: 0 } }

/** A task whose model is `held` until the client has it: the call that begins it would have answered a plan that is over, or asks, by then. */
const beginning = Effect.map(Deferred.make<void>(), (begun) => ({
  held: until(Deferred.await(begun)),
  begin: (url: string, options = {}) =>
    Effect.map(request(url, "tools/call", ask, options), taskOf).pipe(
      Effect.tap(() => Deferred.succeed(begun, undefined))
    )
}))

/** The settings of a gateway whose agent needs a decision for each call. */
const withApprovals = Effect.gen(function* () {
  const peer = yield* ScriptedPeer.serve({ acts: [produces("paid"), completes()] })
  const skills = [{ id: "ask", approval: "always" }]
  const agents = [{ name: "ann", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills }]
  const folder = yield* folderOf({ "gateway.json": JSON.stringify({ agents }) })
  return { BOWLINE_CONFIG: join(folder, "gateway.json") }
})

/** The task as soon as it is so. */
const awaitStatus = (url: string, taskId: string, status: string, options = {}) =>
  Effect.map(request(url, "tasks/get", { taskId }, options), taskOf).pipe(
    Effect.repeat({ until: (task) => task.status === status, schedule: Schedule.spaced("20 millis") })
  )

describe("a task", () => {
  it.live("is what a client of tasks gets of a plan that runs on, under the id of the plan", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url } = yield* start([[until(Deferred.await(proceed)), say("done")]])
      const discovered = yield* request(url, "server/discover", {})
      assert.deepNestedInclude(discovered.body, { "result.capabilities.extensions": { [extension]: {} } })
      const { resultType, status, taskId } = taskOf(yield* request(url, "tools/call", ask))
      assert.deepStrictEqual([resultType, status], ["task", "working"])
      assert.match(taskId, /^plan_/)
      assert.strictEqual(taskOf(yield* request(url, "tasks/get", { taskId })).status, "working")
      yield* Deferred.succeed(proceed, undefined)
      const { result } = yield* awaitStatus(url, taskId, "completed")
      assert.deepNestedInclude(result, { isError: false, "structuredContent.text": "done" })
    })
  )

  it.live("of a plan that failed is completed, and its result is an error", () =>
    Effect.gen(function* () {
      const { begin, held } = yield* beginning
      const { url } = yield* start([[held, error(401)]], { BOWLINE_MAX_RETRIES: "0" })
      const { taskId } = yield* begin(url)
      const { result } = yield* awaitStatus(url, taskId, "completed")
      assert.isTrue(result?.isError)
    })
  )

  it.live("is cancelled with its plan", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[until(Effect.never)]])
      const { taskId } = taskOf(yield* request(url, "tools/call", ask))
      const [asked] = yield* provider.requests.awaitCount(1)
      const acknowledged = taskOf(yield* request(url, "tasks/cancel", { taskId }))
      assert.deepStrictEqual([acknowledged.resultType, acknowledged.taskId], ["complete", undefined])
      assert.strictEqual(yield* asked?.ended ?? Effect.succeed("not asked"), "closed")
      assert.strictEqual((yield* awaitStatus(url, taskId, "cancelled")).result, undefined)
    })
  )

  it.live("says that it waits for a tool of its client, which no client of MCP runs", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[callTool("page", {})], [say("done")]])
      const tools = [{ name: "page", input_schema: { type: "object" } }]
      const preferences = { on_disconnect: "continue" }
      const asking = yield* Effect.forkChild(post(`${url}/plan`, { question: "?", tools, preferences }))
      const { body } = yield* Effect.repeat(send(`${url}/waiting`), {
        until: ({ body }) => (body["waiting"] as ReadonlyArray<unknown>).length > 0,
        schedule: Schedule.spaced("20 millis")
      })
      const [{ plan_id, task_id } = assert.fail()] = body["waiting"] as ReadonlyArray<Record<string, string>>
      assert.strictEqual((yield* awaitStatus(url, plan_id ?? "", "input_required")).resultType, "complete")
      const look = { name: "plan_result", arguments: { plan_id, wait_ms: 0 } }
      const waits = yield* request(url, "tools/call", look)
      assert.deepNestedInclude(waits.body, { "result.structuredContent.state": "input-required" })
      yield* post(`${url}/plans/${plan_id}/inbox`, { type: "result", task_id, content: "it is" })
      yield* Fiber.join(asking)
      const over = yield* request(url, "tools/call", look)
      assert.deepNestedInclude(over.body, { "result.structuredContent.state": "completed" })
    })
  )

  it.live("that needs a decision asks for it, and takes it", () =>
    Effect.gen(function* () {
      const { begin, held } = yield* beginning
      const script: Script = (asked) =>
        results(asked).length === 0 ? [held, callTool("ann_ask", { input: "7" })] : [say(results(asked).join())]
      const { url } = yield* start(script, yield* withApprovals)
      const { taskId } = yield* begin(url)
      const capabilities = { elicitation: {}, extensions: { [extension]: {} } }
      const { inputRequests = {} } = yield* awaitStatus(url, taskId, "input_required", { capabilities })
      const [key = ""] = Object.keys(inputRequests)
      assert.strictEqual(inputRequests[key]?.method, "elicitation/create")
      const wrong = yield* request(url, "tasks/update", { taskId, inputResponses: { [key]: { action: "yes" } } })
      assert.deepStrictEqual(errorOf(wrong), [200, -32_602])
      const inputResponses = { [key]: { action: "accept", content: { decision: "approve" } } }
      assert.strictEqual(taskOf(yield* request(url, "tasks/update", { taskId, inputResponses })).resultType, "complete")
      assert.include((yield* awaitStatus(url, taskId, "completed")).result?.structuredContent.text, "paid")
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live(
    "shows its decision also to a call that does not wait, and goes on when the call that brought it is cancelled",
    () =>
      Effect.gen(function* () {
        const { begin, held } = yield* beginning
        const proceed = yield* Deferred.make<void>()
        const script: Script = (asked) =>
          results(asked).length === 0
            ? [held, callTool("ann_ask", { input: "7" })]
            : [until(Deferred.await(proceed)), say("done")]
        const { provider, url } = yield* start(script, { ...(yield* withApprovals), ...(yield* stores.postgres) })
        const { taskId } = yield* begin(url)
        const options = { capabilities: { elicitation: {} }, headers: { "mcp-session-id": "s-1" } }
        const look = { name: "plan_result", arguments: { plan_id: taskId } }
        const { inputRequests = {}, requestState } = taskOf(yield* request(url, "tools/call", look, options))
        const [key = ""] = Object.keys(inputRequests)
        const now = { name: "plan_result", arguments: { plan_id: taskId, wait_ms: 0 } }
        const waits = yield* request(url, "tools/call", now, { capabilities: {} })
        assert.deepNestedInclude(waits.body, { "result.structuredContent.state": "input-required" })
        const inputResponses = { [key]: { action: "accept", content: { decision: "approve" } } }
        yield* Effect.forkChild(request(url, "tools/call", { ...look, inputResponses, requestState }, options), {
          startImmediately: true
        })
        yield* provider.requests.awaitCount(2)
        const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } }
        assert.strictEqual((yield* post(`${url}/mcp`, cancel, options.headers)).status, 202)
        yield* Deferred.succeed(proceed, undefined)
        const ended = yield* request(url, "tools/call", look, { capabilities: {} })
        assert.deepNestedInclude(ended.body, { "result.structuredContent.text": "done" })
      }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("is for clients that declare tasks, and for its own caller", () =>
    Effect.gen(function* () {
      const { begin, held } = yield* beginning
      const { url } = yield* start(() => [held, say("ok")], { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob" })
      const by = (name: string) => ({ headers: { authorization: `Bearer key-of-${name}` } })
      const plain = yield* request(url, "tools/call", ask, { ...by("ann"), capabilities: {} })
      assert.strictEqual(taskOf(plain).resultType, "complete")
      const { taskId } = yield* begin(url, by("ann"))
      for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
        const undeclared = yield* request(url, method, { taskId }, { ...by("ann"), capabilities: {} })
        assert.deepStrictEqual(errorOf(undeclared), [400, -32_021])
        assert.deepStrictEqual(errorOf(yield* request(url, method, { taskId }, by("bob"))), [200, -32_602])
        assert.deepStrictEqual(errorOf(yield* request(url, method, { taskId: "x" }, by("ann"))), [200, -32_602])
        const headers = { ...by("ann").headers, "mcp-name": "x" }
        assert.deepStrictEqual(errorOf(yield* request(url, method, { taskId }, { headers })), [400, -32_020])
      }
    })
  )
})
