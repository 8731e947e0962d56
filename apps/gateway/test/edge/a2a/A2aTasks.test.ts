import { until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { join } from "node:path"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { post, send, start } from "../../http/RunningGateway.ts"
import { ann, by, errorOf, eventsOf, fieldsOf, keys, message, resultOf, rpc } from "./Requests.ts"

describe("a task", () => {
  it.live("of somebody else is not found, by any method", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")], keys)
      const sent = yield* post(`${url}/a2a`, rpc("SendMessage", message()), ann)
      const { id } = resultOf(sent)["task"] as { readonly id: string }
      for (const [method, params] of [
        ["GetTask", { id }],
        ["CancelTask", { id }],
        ["SubscribeToTask", { id }],
        ["SendMessage", message({ taskId: id })]
      ] as const) {
        assert.strictEqual(errorOf(yield* post(`${url}/a2a`, rpc(method, params), by("bob"))).code, -32001, method)
      }
      assert.deepStrictEqual(resultOf(yield* post(`${url}/a2a`, rpc("ListTasks", {}), by("bob")))["tasks"], [])
    })
  )

  it.live("that is over takes no message, no cancel and no subscription, and says so", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const sent = yield* post(`${url}/a2a`, rpc("SendMessage", message()))
      const { id } = resultOf(sent)["task"] as { readonly id: string }
      for (const [method, params, code] of [
        ["CancelTask", { id }, -32002],
        ["SubscribeToTask", { id }, -32004],
        ["SendMessage", message({ taskId: id }), -32004],
        ["SendMessage", message({ taskId: id, contextId: "other" }), -32602]
      ] as const) {
        assert.strictEqual(errorOf(yield* post(`${url}/a2a`, rpc(method, params))).code, code, method)
      }
    })
  )

  it.live("is joined by its message's id if the client says so, and by other content never", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const idempotent = { metadata: { bowline: { idempotent: true }, colour: ["red"] } }
      const ids = []
      for (const [fields, historyLength] of [
        [idempotent, 1],
        [idempotent, 2],
        [{}, 1]
      ] as const) {
        const params = { ...message(fields), configuration: { historyLength } }
        const { task } = resultOf(yield* post(`${url}/a2a`, rpc("SendMessage", params)))
        const { history, id } = task as { readonly id: string; readonly history: ReadonlyArray<object> }
        if (fields === idempotent) assert.deepInclude(history[0], { messageId: "m", metadata: { colour: ["red"] } })
        ids.push(id)
      }
      assert.strictEqual(ids[0], ids[1])
      assert.notStrictEqual(ids[0], ids[2])
      const other = message({ ...idempotent, parts: [{ text: "Other" }] })
      assert.deepStrictEqual(fieldsOf(errorOf(yield* post(`${url}/a2a`, rpc("SendMessage", other)))), [
        "message.messageId"
      ])
    })
  )

  it.live("has its data and its texts in the question, and answers a schema with data", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say('{"n": 1}')]])
      const schema = { type: "object", properties: { n: { type: "number" } } }
      const metadata = { bowline: { preferences: { response_format: { type: "json_schema", schema } } } }
      const parts = [{ text: "one" }, { data: { two: 2 } }, { text: "three" }]
      const { task } = resultOf(yield* post(`${url}/a2a`, rpc("SendMessage", message({ parts, metadata }))))
      const { artifacts, id } = task as { readonly id: string; readonly artifacts: ReadonlyArray<object> }
      assert.deepStrictEqual(artifacts, [
        { artifactId: "answer", name: "answer", parts: [{ data: { n: 1 }, mediaType: "application/json" }] }
      ])
      const { body } = yield* send(`${url}/plans/${id}`)
      assert.strictEqual(body["question"], 'one\n\nthree\n\n```json\n{\n  "two": 2\n}\n```')
    })
  )

  it.live("is listed with the others, newest first, page by page", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const ids: Array<string> = []
      for (const contextId of ["a", "b", "a"]) {
        const { task } = resultOf(yield* post(`${url}/a2a`, rpc("SendMessage", message({ contextId }))))
        ids.unshift((task as { readonly id: string }).id)
      }
      const list = Effect.fnUntraced(function* (query: string) {
        const { body } = yield* send(`${url}/a2a/tasks${query}`)
        const tasks = body["tasks"] as ReadonlyArray<{ readonly id: string; readonly artifacts?: unknown }>
        return { body, tasks, ids: tasks.map(({ id }) => id) }
      })
      const all = yield* list("")
      assert.deepStrictEqual(all.ids, ids)
      assert.deepInclude(all.body, { nextPageToken: "", pageSize: 50, totalSize: 3 })
      assert.notProperty(all.tasks[0], "artifacts")
      const first = yield* list("?pageSize=2&includeArtifacts=true&historyLength=1")
      assert.property(first.tasks[0], "artifacts")
      const second = yield* list(`?pageSize=2&pageToken=${String(first.body["nextPageToken"])}`)
      assert.deepStrictEqual([...first.ids, ...second.ids], ids)
      assert.deepStrictEqual((yield* list("?contextId=b")).ids, [ids[1]])
      assert.deepStrictEqual((yield* list("?contextId=none")).ids, [])
      assert.deepStrictEqual((yield* list("?status=TASK_STATE_FAILED")).ids, [])
      assert.deepStrictEqual((yield* list("?status=TASK_STATE_COMPLETED")).ids, ids)
    })
  )
})

describe("a stream", () => {
  it.live("is the same for every reader, and continues behind the last event that a reader has seen", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url } = yield* start([[say("a"), say("b"), until(Deferred.await(proceed)), say("c")]])
      const begun = yield* post(`${url}/a2a/message:send`, { ...message(), configuration: { returnImmediately: true } })
      const { id } = begun.body["task"] as { readonly id: string }
      const subscribe = (after?: string) =>
        send(`${url}/a2a/tasks/${id}:subscribe`, { headers: after === undefined ? {} : { "last-event-id": after } })
      const readers = yield* Effect.forkChild(Effect.all([subscribe("1"), subscribe("1")], { concurrency: 2 }))
      yield* Deferred.succeed(proceed, undefined)
      const [one, two] = yield* Effect.map(Fiber.join(readers), (answers) => answers.map(({ text }) => eventsOf(text)))
      assert.deepStrictEqual(one, two)
      const all = one ?? []
      const text = all.map(({ data }) => JSON.stringify(data))
      assert.include(text.at(-1), "TASK_STATE_COMPLETED")
      // Behind each of its events comes what came behind it before, also when the task is over.
      for (const [index, event] of all.entries()) {
        if (event.id === undefined || index === all.length - 1) continue
        assert.deepStrictEqual(eventsOf((yield* subscribe(event.id)).text), all.slice(index + 1))
      }
      const last = yield* subscribe(all.at(-1)?.id)
      assert.strictEqual(errorOf(last).details?.[0]?.reason, "UNSUPPORTED_OPERATION")
      for (const wrong of ["x", "9999", "3.1"])
        assert.deepStrictEqual(fieldsOf(errorOf(yield* subscribe(wrong))), ["Last-Event-ID"])
    })
  )

  it.live("of a preset: it has a card of its own, and its bindings below", () =>
    Effect.gen(function* () {
      const presets = { presets: { knots: { description: "Knows knots" } } }
      const folder = yield* folderOf({ "gateway.json": JSON.stringify(presets) })
      const { url } = yield* start(() => [say("ok")], {
        BOWLINE_CONFIG: join(folder, "gateway.json"),
        BOWLINE_PUBLIC_URL: "https://bowline.example/base/"
      })
      const card = yield* send(`${url}/a2a/agents/knots/.well-known/agent-card.json`)
      assert.deepInclude(card.body, {
        name: "knots",
        description: "Knows knots",
        url: "https://bowline.example/base/a2a/agents/knots"
      })
      const { status, text } = yield* post(`${url}/a2a/agents/knots/message:stream`, message())
      assert.strictEqual(status, 200)
      assert.include(text, "TASK_STATE_COMPLETED")
      const plans = (yield* send(`${url}/plans`)).body["plans"] as ReadonlyArray<object>
      assert.deepInclude(plans[0], { preset: "knots" })
      const unknown = yield* post(`${url}/a2a/agents/none`, rpc("SendMessage", message()))
      assert.strictEqual(errorOf(unknown).code, -32601)
      assert.strictEqual((yield* send(`${url}/a2a/agents/none/.well-known/agent-card.json`)).status, 404)
    })
  )
})

describe("the card", () => {
  it.live("is for everybody, says what the gateway does, and is not sent twice", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], keys)
      const { body, headers } = yield* send(`${url}/.well-known/agent-card.json`)
      const interfaces = body["supportedInterfaces"] as ReadonlyArray<Readonly<Record<string, string>>>
      assert.deepStrictEqual(
        interfaces.map(({ protocolBinding, protocolVersion, url: at }) => [protocolBinding, protocolVersion, at]),
        [
          ["JSONRPC", "1.0", `${url}/a2a`],
          ["HTTP+JSON", "1.0", `${url}/a2a`],
          ["JSONRPC", "0.3", `${url}/a2a`]
        ]
      )
      const { extensions, ...capabilities } = body["capabilities"] as { extensions: ReadonlyArray<{ uri: string }> }
      assert.deepStrictEqual(capabilities, { streaming: true, pushNotifications: false, extendedAgentCard: true })
      assert.deepStrictEqual(
        extensions.map(({ uri }) => uri),
        ["urn:bowline:a2a:resumable-streams:v1"]
      )
      assert.deepInclude(body, {
        protocolVersion: "0.3.0",
        preferredTransport: "JSONRPC"
      })
      assert.deepStrictEqual(
        [headers.get("cache-control"), headers.get("vary")],
        ["public, max-age=300", "A2A-Version"]
      )
      const again = yield* send(`${url}/.well-known/agent-card.json`, {
        headers: { "if-none-match": headers.get("etag") ?? "" }
      })
      assert.deepStrictEqual([again.status, again.text], [304, ""])
      const modified = headers.get("last-modified") ?? ""
      const since = (time: string, tag = {}) =>
        send(`${url}/.well-known/agent-card.json`, { headers: { "if-modified-since": time, ...tag } })
      assert.strictEqual((yield* since(modified)).status, 304)
      assert.strictEqual((yield* since(new Date(Date.parse(modified) - 1_000).toUTCString())).status, 200)
      assert.strictEqual((yield* since("yesterday")).status, 200)
      // The validator is the better one.
      assert.strictEqual((yield* since(modified, { "if-none-match": '"other"' })).status, 200)
      assert.strictEqual((yield* send(`${url}/a2a/extendedAgentCard`)).status, 401)
      const extended = yield* send(`${url}/a2a/extendedAgentCard`, { headers: ann })
      assert.deepInclude(extended.body, { name: "Bowline" })
      const of03 = ["additionalInterfaces", "preferredTransport", "protocolVersion", "security", "url"]
      const alsoOf03 = [...of03, "supportsAuthenticatedExtendedCard"]
      for (const key of alsoOf03) assert.notProperty(extended.body, key)
      assert.deepNestedInclude(extended.body, {
        "securitySchemes.bearer": { httpAuthSecurityScheme: { scheme: "Bearer" } }
      })
      const older = yield* send(`${url}/a2a/v1/card`, { headers: ann })
      assert.containsAllKeys(older.body, alsoOf03)
    })
  )
})
