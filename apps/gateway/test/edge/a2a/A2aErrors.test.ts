import { until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Scope } from "effect"
import { post, send, start } from "../../http/RunningGateway.ts"
import { startForKit } from "./KitGateway.ts"
import { ann, errorOf, eventsOf, fieldsOf, keys, message, missing, resultOf, rpc } from "./Requests.ts"

const wrongBowline = { bowline: { preferences: { max_steps: 0 }, colour: 1 } }

const forged = Buffer.from(JSON.stringify(["1", missing])).toString("base64url")

describe("an error of JSON-RPC", () => {
  it.live.each([
    ["bad JSON", "{", {}, -32700, undefined],
    ["a batch", [rpc("GetTask", { id: missing })], {}, -32600, undefined],
    ["text", '"GetTask"', {}, -32600, undefined],
    ["another jsonrpc", { ...rpc("GetTask", {}), jsonrpc: "1.0" }, {}, -32600, undefined],
    ["an id that is an object", { ...rpc("GetTask", {}), id: {} }, {}, -32600, undefined],
    ["a notification", { jsonrpc: "2.0", method: "GetTask", params: {} }, {}, -32600, undefined],
    ["a method that is none", rpc("toString", {}), {}, -32601, undefined],
    ["a method of 1.0 in 0.3", rpc("GetTask", { id: missing }), { "a2a-version": "0.3" }, -32601, undefined],
    ["a method of 0.3 in 1.0", rpc("tasks/get", { id: missing }), { "a2a-version": "1.0" }, -32601, undefined],
    ["another version", rpc("GetTask", { id: missing }), { "a2a-version": "2.0" }, -32009, undefined],
    ["no params", rpc("GetTask"), {}, -32602, ["id"]],
    ["params that are a list", rpc("GetTask", []), {}, -32602, [""]],
    [
      "every wrong field",
      rpc("SendMessage", { message: { role: "user", parts: [] }, configuration: { historyLength: -1 } }),
      {},
      -32602,
      ["configuration.historyLength", "message.messageId", "message.parts", "message.role"]
    ],
    ["a blank message", rpc("SendMessage", message({ parts: [{ text: " " }] })), {}, -32602, ["message.parts"]],
    ["a part without content", rpc("SendMessage", message({ parts: [{}] })), {}, -32602, ["message.parts[0]"]],
    ["a wrong context", rpc("SendMessage", message({ contextId: "\u00fc" })), {}, -32602, ["message.contextId"]],
    [
      "Bowline's own fields",
      rpc("SendMessage", message({ metadata: wrongBowline })),
      {},
      -32602,
      ["message.metadata.bowline.colour", "message.metadata.bowline.preferences.max_steps"]
    ],
    [
      "Bowline's own fields beside others",
      rpc("SendMessage", message({ contextId: "\u00fc", metadata: wrongBowline, parts: [{ text: " " }] })),
      {},
      -32602,
      [
        "message.contextId",
        "message.metadata.bowline.colour",
        "message.metadata.bowline.preferences.max_steps",
        "message.parts"
      ]
    ],
    [
      "a model that may not be named",
      rpc("SendMessage", message({ metadata: { bowline: { preferences: { model: "no/such" } } } })),
      {},
      -32602,
      ["message.metadata.bowline.preferences.model"]
    ],
    [
      "a wrong page",
      rpc("ListTasks", { pageSize: 101, status: "x", pageToken: "x" }),
      {},
      -32602,
      ["pageSize", "status"]
    ],
    ["a wrong token", rpc("ListTasks", { pageToken: "x" }), {}, -32602, ["pageToken"]],
    ["a token that a page never had", rpc("ListTasks", { pageToken: forged }), {}, -32602, ["pageToken"]],
    [
      "a time that no calendar has",
      rpc("ListTasks", { statusTimestampAfter: "+275760-09-13T00:00:00Z" }),
      {},
      -32602,
      ["statusTimestampAfter"]
    ],
    ["an unknown task", rpc("GetTask", { id: missing }), {}, -32001, undefined],
    ["an id that is none", rpc("CancelTask", { id: "x" }), {}, -32001, undefined],
    ["a message to an unknown task", rpc("SendMessage", message({ taskId: missing })), {}, -32001, undefined],
    [
      "a file",
      rpc("SendMessage", message({ parts: [{ text: "Hi" }, { url: "http://a.test/b" }] })),
      {},
      -32602,
      ["message.parts[1]"]
    ],
    [
      "other output",
      rpc("SendMessage", { ...message(), configuration: { acceptedOutputModes: ["image/png"] } }),
      {},
      -32005,
      undefined
    ],
    ["a method of push notifications", rpc("CreateTaskPushNotificationConfig", {}), {}, -32003, undefined],
    [
      "a message with a push configuration",
      rpc("SendMessage", { ...message(), configuration: { taskPushNotificationConfig: { url: "http://a.test" } } }),
      {},
      -32003,
      undefined
    ]
  ] as const)("says what is wrong with %s", ([, body, headers, code, fields]) =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const answer = yield* post(`${url}/a2a`, body, headers)
      assert.strictEqual(answer.status, 200, answer.text)
      const error = errorOf(answer)
      assert.strictEqual(error.code, code, answer.text)
      assert.deepInclude(error.data?.[0], {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        domain: "a2a-protocol.org"
      })
      if (fields !== undefined) assert.deepStrictEqual(fieldsOf(error), [...fields])
      const hasId = typeof body === "object" && "id" in body && body.id === 1
      assert.deepStrictEqual([answer.body["jsonrpc"], answer.body["id"]], ["2.0", hasId ? 1 : null])
      assert.deepStrictEqual((yield* send(`${url}/plans`)).body["plans"], [])
    })
  )

  it.live.each([
    ["no key", {}, rpc("GetTask", {}), 401, -32603],
    ["a wrong key", { authorization: "Bearer x" }, rpc("GetTask", {}), 401, -32603],
    ["a foreign page", { ...ann, origin: "https://foreign.example" }, rpc("GetTask", {}), 403, -32600],
    ["a large body", ann, rpc("SendMessage", message({ parts: [{ text: "x".repeat(3_000) }] })), 413, -32600],
    ["a body that is not JSON", { ...ann, "content-type": "text/plain" }, rpc("GetTask", {}), 415, -32005]
  ] as const)("has the status of HTTP for %s", ([, headers, body, status, code]) =>
    Effect.gen(function* () {
      const { url } = yield* start([], keys)
      const answer = yield* post(`${url}/a2a`, body, headers)
      assert.deepStrictEqual([answer.status, errorOf(answer).code], [status, code])
      if (status === 401) assert.match(answer.headers.get("www-authenticate") ?? "", /^Bearer/)
    })
  )

  it.live("says when to come again: too many requests, in both bindings", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], { ...keys, BOWLINE_RATE_LIMIT: "1/1m" })
      yield* send(`${url}/plans`, { headers: ann })
      const overRpc = yield* post(`${url}/a2a`, rpc("GetTask", {}), ann)
      const overRest = yield* send(`${url}/a2a/tasks`, { headers: ann })
      for (const answer of [overRpc, overRest]) {
        assert.strictEqual(answer.status, 429)
        assert.isNotNull(answer.headers.get("retry-after"))
      }
      assert.strictEqual(errorOf(overRpc).code, -32603)
      assert.strictEqual(errorOf(overRpc).data?.[0]?.metadata?.["retryable"], "true")
      assert.deepInclude(errorOf(overRest), { code: 429, status: "RESOURCE_EXHAUSTED" })
    })
  )
})

describe("a gateway that shuts down", () => {
  it.live("says so to clients, in both bindings, and when to come again", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const scope = yield* Scope.make()
      const { provider, url } = yield* Scope.provide(start([[until(Deferred.await(proceed)), say("ok")]]), scope)
      const running = yield* Effect.forkChild(post(`${url}/a2a`, rpc("SendMessage", message())))
      yield* provider.requests.awaitCount(1)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* Effect.repeat(send(`${url}/ready`), { until: ({ status }) => status === 503 })
      const overRpc = yield* post(`${url}/a2a`, rpc("SendMessage", message()))
      assert.deepStrictEqual([overRpc.status, errorOf(overRpc).code, overRpc.body["id"]], [503, -32603, 1])
      assert.deepInclude(errorOf(overRpc).data?.[0]?.metadata, { code: "draining", retryable: "true" })
      const overRest = yield* post(`${url}/a2a/message:send`, message())
      assert.strictEqual(overRest.status, 503)
      assert.deepInclude(errorOf(overRest), { code: 503, status: "UNAVAILABLE" })
      const old = { kind: "message", role: "user", parts: [{ kind: "text", text: "Hi" }] }
      const streams = [
        yield* post(`${url}/a2a`, rpc("SendStreamingMessage", message())),
        yield* post(`${url}/a2a`, rpc("message/stream", message(old)))
      ]
      for (const answer of streams) {
        assert.deepStrictEqual([answer.status, errorOf(answer).code, answer.body["id"]], [503, -32603, 1])
        assert.strictEqual(answer.headers.get("content-type"), "application/json")
      }
      for (const { headers } of [overRpc, overRest, ...streams]) assert.isNotNull(headers.get("retry-after"))
      yield* Deferred.succeed(proceed, undefined)
      assert.include((yield* Fiber.join(running)).text, "TASK_STATE_COMPLETED")
      yield* Fiber.join(closing)
    })
  )

  it.live("tells who follows a task that waits to come again", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { url } = yield* Scope.provide(startForKit(false), scope)
      const sent = yield* post(`${url}/a2a`, rpc("SendMessage", message({ messageId: "tck-input-required" })))
      const { id } = resultOf(sent)["task"] as { readonly id: string }
      const following = yield* Effect.promise(() =>
        fetch(`${url}/a2a`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(rpc("SubscribeToTask", { id }))
        })
      )
      yield* Scope.close(scope, Exit.void)
      const events = eventsOf(yield* Effect.promise(() => following.text()))
      assert.lengthOf(events, 2)
      const { code, data } = errorOf({ body: events[1]?.data ?? {} })
      assert.strictEqual(code, -32603)
      assert.deepInclude(data?.[0]?.metadata, { code: "draining", retryable: "true" })
    })
  )

  it.live("ends a stream over JSON-RPC with the failed task, which may be asked again, when its grace is over", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const script = [[say("half "), until(Effect.never)]]
      const { provider, url } = yield* Scope.provide(start(script, { BOWLINE_SHUTDOWN_GRACE: "50ms" }), scope)
      const running = yield* Effect.forkChild(post(`${url}/a2a`, rpc("SendStreamingMessage", message())))
      yield* provider.requests.awaitCount(1)
      yield* Scope.close(scope, Exit.void)
      const last = eventsOf((yield* Fiber.join(running)).text).at(-1)?.data ?? {}
      assert.deepInclude(last, { jsonrpc: "2.0", id: 1 })
      const { statusUpdate } = resultOf({ body: last }) as {
        readonly statusUpdate?: {
          readonly status: { readonly state: string }
          readonly metadata: { readonly bowline: object }
        }
      }
      assert.strictEqual(statusUpdate?.status.state, "TASK_STATE_FAILED")
      assert.deepInclude(statusUpdate?.metadata.bowline, { reason: "shutdown", retryable: true })
    })
  )
})

describe("an error of HTTP+JSON", () => {
  it.live.each([
    ["bad JSON", "POST", "/message:send", "{", 400, "INVALID_ARGUMENT", "PARSE_ERROR"],
    ["a wrong field", "POST", "/message:send", {}, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"],
    ["a wrong query", "GET", "/tasks?pageSize=x", undefined, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"],
    ["an unknown route", "GET", "/nothing", undefined, 404, "NOT_FOUND", "METHOD_NOT_FOUND"],
    ["an unknown task", "GET", `/tasks/${missing}`, undefined, 404, "NOT_FOUND", "TASK_NOT_FOUND"],
    ["a cancel of an unknown task", "POST", `/tasks/${missing}:cancel`, undefined, 404, "NOT_FOUND", "TASK_NOT_FOUND"],
    ["an unknown task to follow", "GET", `/tasks/${missing}:subscribe`, undefined, 404, "NOT_FOUND", "TASK_NOT_FOUND"],
    [
      "a file",
      "POST",
      "/message:send",
      message({ parts: [{ raw: "aGk=", mediaType: "image/png" }] }),
      400,
      "INVALID_ARGUMENT",
      "INVALID_PARAMS"
    ],
    [
      "push notifications",
      "GET",
      `/tasks/${missing}/pushNotificationConfigs`,
      undefined,
      400,
      "FAILED_PRECONDITION",
      "PUSH_NOTIFICATION_NOT_SUPPORTED"
    ]
  ] as const)("says what is wrong with %s", ([, method, path, body, status, name, reason]) =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const answer = yield* send(`${url}/a2a${path}`, {
        method,
        headers: { "content-type": "application/a2a+json", accept: "application/a2a+json" },
        ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) })
      })
      assert.strictEqual(answer.status, status, answer.text)
      assert.strictEqual(answer.headers.get("content-type"), "application/a2a+json")
      const error = errorOf(answer)
      assert.deepInclude(error, { code: status, status: name })
      assert.strictEqual(error.details?.[0]?.reason, reason)
      // The client of 0.3 looks for the code of JSON-RPC.
      const old = yield* send(`${url}/a2a/v1${path}`, {
        method,
        ...(body !== undefined && { headers: { "content-type": "application/json" }, body: "{}" })
      })
      assert.isBelow(Number(old.body["code"]), -32000)
    })
  )

  it.live("names other methods of a route, and other versions", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const wrong = yield* send(`${url}/a2a/message:send`)
      assert.deepStrictEqual([wrong.status, wrong.headers.get("allow")], [405, "POST"])
      assert.strictEqual(errorOf(wrong).code, 405)
      const onRpc = yield* send(`${url}/a2a`)
      assert.deepStrictEqual([onRpc.status, onRpc.headers.get("allow"), errorOf(onRpc).code], [405, "POST", -32600])
      const version = yield* send(`${url}/a2a/tasks`, { headers: { "a2a-version": "7" } })
      assert.strictEqual(version.status, 400)
      assert.strictEqual(errorOf(version).details?.[0]?.metadata?.["supported"], "0.3,1.0")
      assert.strictEqual((yield* send(`${url}/a2a/tasks`, { headers: { "a2a-version": "0.3" } })).status, 404)
      assert.strictEqual((yield* send(`${url}/a2a/tasks`, { headers: { "a2a-version": "1.0.7" } })).status, 200)
      const inQuery = yield* send(`${url}/a2a/tasks?A2A-Version=7`)
      assert.strictEqual(errorOf(inQuery).details?.[0]?.reason, "VERSION_NOT_SUPPORTED")
      assert.strictEqual((yield* send(`${url}/a2a/tasks?A2A-Version=1.0`)).status, 200)
    })
  )
})

describe("a client that names extensions", () => {
  it.live("is answered as without them, and told which are active, in both bindings and in streams", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const named = { "a2a-extensions": "https://example.com/ext/v1,urn:other" }
      for (const answer of [
        yield* post(`${url}/a2a`, rpc("SendMessage", message()), named),
        yield* post(`${url}/a2a`, rpc("SendStreamingMessage", message()), named),
        yield* post(`${url}/a2a/message:send`, message(), named),
        yield* post(`${url}/a2a/message:stream`, message(), named)
      ]) {
        assert.deepStrictEqual([answer.status, answer.headers.get("a2a-extensions")], [200, ""])
        assert.include(answer.text, "TASK_STATE_COMPLETED")
      }
      const refused = yield* post(`${url}/a2a`, rpc("GetTask", { id: missing }), named)
      assert.deepStrictEqual([errorOf(refused).code, refused.headers.get("a2a-extensions")], [-32001, ""])
      const without = yield* post(`${url}/a2a`, rpc("SendMessage", message()))
      assert.isNull(without.headers.get("a2a-extensions"))
      const resumable = "urn:bowline:a2a:resumable-streams:v1"
      const known = { "a2a-extensions": `urn:other, ${resumable}` }
      const active = yield* post(`${url}/a2a/message:stream`, message(), known)
      assert.strictEqual(active.headers.get("a2a-extensions"), resumable)
      const older = yield* post(`${url}/a2a`, rpc("GetTask", { id: missing }), { "x-a2a-extensions": resumable })
      assert.deepStrictEqual(
        ["x-a2a-extensions", "a2a-extensions"].map((name) => older.headers.get(name)),
        [resumable, null]
      )
    })
  )
})

it.live("who follows a task is told that it is not there any more when its session is deleted", () =>
  Effect.gen(function* () {
    const { url } = yield* startForKit(false)
    const asked = { messageId: "tck-input-required", contextId: "mine" }
    const sent = yield* post(`${url}/a2a`, rpc("SendMessage", message(asked)))
    const { id } = resultOf(sent)["task"] as { readonly id: string }
    const following = yield* Effect.promise(() => fetch(`${url}/a2a/tasks/${id}:subscribe`))
    assert.strictEqual((yield* send(`${url}/sessions/mine`, { method: "DELETE" })).status, 204)
    const [, last] = eventsOf(yield* Effect.promise(() => following.text()))
    const { details, code } = errorOf({ body: last?.data ?? {} })
    assert.deepStrictEqual([code, details?.[0]?.reason], [404, "TASK_NOT_FOUND"])
  })
)

it.live("who waits for a task is told in both bindings that its session was deleted", () =>
  Effect.gen(function* () {
    const { provider, url } = yield* start(() => [until(Effect.never)])
    const asked = message({ contextId: "mine" })
    const asks = [post(`${url}/a2a`, rpc("SendMessage", asked)), post(`${url}/a2a/message:send`, asked)]
    for (const [index, ask] of asks.entries()) {
      const asking = yield* Effect.forkChild(ask, { startImmediately: true })
      yield* provider.requests.awaitCount(index + 1)
      assert.strictEqual((yield* send(`${url}/sessions/mine`, { method: "DELETE" })).status, 204)
      // The end of the plan may be told before it is deleted.
      assert.match((yield* Fiber.join(asking)).text, /TASK_NOT_FOUND|TASK_STATE_CANCELED/)
    }
  })
)
