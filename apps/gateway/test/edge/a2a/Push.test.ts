import * as Host from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { until } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Schedule, Scope } from "effect"
import { join } from "node:path"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { post, send, start, stores } from "../../http/RunningGateway.ts"
import { dump } from "../../plan/Databases.ts"
import { clients } from "./Clients.ts"
import { ann, by, errorOf, fieldsOf, keys, message, resultOf, rpc } from "./Requests.ts"

const secret = "planted-secret"

const configured = Effect.map(
  folderOf({ "gateway.json": JSON.stringify({ a2a: { push_notifications: true } }) }),
  (folder) => ({ BOWLINE_CONFIG: join(folder, "gateway.json") })
)

/** A receiver of notifications, which answers each with this status. */
const receiver = (status: (count: number) => number = () => 200) => {
  let count = 0
  return Effect.flatMap(Network, ({ serve }) => serve(() => Effect.sync(() => Host.text(status(++count), "")))).pipe(
    Effect.provide(LoopbackNetwork.layer)
  )
}

type Told = Readonly<Record<string, Readonly<Record<string, unknown>>>>

const bodies = (requests: ReadonlyArray<Host.HostRequest>) => requests.map(({ body }) => JSON.parse(body) as Told)

/** A notification of 1.0 in a word: the state, or the artifact and its text. */
const wordOf = ({ artifactUpdate, statusUpdate }: Told) => {
  const { status } = (statusUpdate ?? {}) as { readonly status?: { readonly state: string } }
  const { artifact } = (artifactUpdate ?? {}) as {
    readonly artifact?: { readonly name: string; readonly parts: ReadonlyArray<{ readonly text: string }> }
  }
  return status?.state ?? `${artifact?.name}: ${artifact?.parts.map(({ text }) => text).join("")}`
}

const config = (url: string) => ({
  url,
  token: `token-${secret}`,
  authentication: { scheme: "Bearer", credentials: secret }
})

const brought = (url: string) => ({
  ...message(),
  configuration: { returnImmediately: true, taskPushNotificationConfig: config(url) }
})

const taskOf = (answer: Parameters<typeof resultOf>[0]) => (resultOf(answer)["task"] as { readonly id: string }).id

const told = ["TASK_STATE_WORKING", "answer: abc", "TASK_STATE_COMPLETED"]

describe.each(Object.entries(clients))("the client of A2A %s", (_, connect) => {
  it.live("names places to notify, sees and lists them, is notified, and has them forgotten", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url } = yield* start([[say("a"), until(Deferred.await(proceed))]], yield* configured)
      const { requests, url: hook } = yield* receiver()
      const client = yield* Effect.promise(() => connect(url))
      const { id } = yield* Effect.promise(() => client.send({ text: "Hi", waits: false }))
      assert.strictEqual(yield* Effect.promise(() => client.notify(id, "one", hook)), `one ${hook}`)
      yield* Effect.promise(() => client.notify(id, "two", "http://a.test/"))
      assert.strictEqual(yield* Effect.promise(() => client.place(id, "two")), "two http://a.test/")
      assert.deepStrictEqual((yield* Effect.promise(() => client.places(id))).toSorted(), [
        `one ${hook}`,
        "two http://a.test/"
      ])
      yield* Effect.promise(() => client.forget(id, "two"))
      assert.deepStrictEqual(yield* Effect.promise(() => client.places(id)), [`one ${hook}`])
      const gone = yield* Effect.exit(Effect.tryPromise(() => client.place(id, "two")))
      assert.isTrue(Exit.isFailure(gone))
      yield* Deferred.succeed(proceed, undefined)
      const isOver = (all: ReadonlyArray<Host.HostRequest>) => /completed/i.test(all.at(-1)?.body ?? "")
      const told = yield* Effect.repeat(requests.all, { until: isOver, schedule: Schedule.spaced("20 millis") })
      for (const { headers } of told) assert.strictEqual(headers["authorization"], "Bearer secret")
    })
  )
})

describe("a client that wants to be notified", () => {
  it.live("is told of each status and each whole artifact, in order, with its credentials", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("a"), say("b"), say("c")], yield* configured)
      const { requests, url: hook } = yield* receiver()
      yield* post(`${url}/a2a`, rpc("SendMessage", brought(hook)))
      const all = yield* requests.awaitCount(3)
      assert.deepStrictEqual(bodies(all).map(wordOf), told)
      for (const { headers, method } of all) {
        assert.strictEqual(method, "POST")
        assert.strictEqual(headers["authorization"], `Bearer ${secret}`)
        assert.strictEqual(headers["x-a2a-notification-token"], `token-${secret}`)
      }
    })
  )

  it.live("is told again what it did not take, before what comes behind it", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("abc")], yield* configured)
      const { requests, url: hook } = yield* receiver((count) => (count === 2 ? 500 : 200))
      yield* post(`${url}/a2a`, rpc("SendMessage", brought(hook)))
      const [working, answer, completed] = told
      assert.deepStrictEqual(bodies(yield* requests.awaitCount(4)).map(wordOf), [working, answer, answer, completed])
    })
  )

  it.live("of 0.3 is told with whole tasks", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("abc")], yield* configured)
      const { requests, url: hook } = yield* receiver()
      const params = {
        message: { kind: "message", messageId: "m", role: "user", parts: [{ kind: "text", text: "Hi" }] },
        configuration: { blocking: false, pushNotificationConfig: { url: hook } }
      }
      yield* post(`${url}/a2a`, rpc("message/send", params))
      const all = bodies(yield* requests.awaitCount(2))
      assert.deepStrictEqual(
        all.map(({ artifacts = [], kind, status }) => [kind, status?.["state"], artifacts.length]),
        [
          ["task", "working", 0],
          ["task", "completed", 1]
        ]
      )
    })
  )

  it.live("names places that only it sees, without their secrets, replaces and deletes them, at most 8", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url } = yield* start([[say("a"), until(Deferred.await(proceed))]], { ...keys, ...(yield* configured) })
      const call = (method: string, params: object, headers = ann) => post(`${url}/a2a`, rpc(method, params), headers)
      const { url: hook } = yield* receiver()
      const taskId = taskOf(yield* call("SendMessage", { ...message(), configuration: { returnImmediately: true } }))
      const made = yield* call("CreateTaskPushNotificationConfig", { taskId, id: "one", ...config(hook) })
      const shown = { taskId, id: "one", url: hook, authentication: { scheme: "Bearer" } }
      assert.deepStrictEqual(resultOf(made), shown)
      assert.deepStrictEqual(resultOf(yield* call("GetTaskPushNotificationConfig", { taskId, id: "one" })), shown)
      yield* call("CreateTaskPushNotificationConfig", { taskId, id: "one", url: `${hook}/other` })
      const listed = resultOf(yield* call("ListTaskPushNotificationConfigs", { taskId }))
      assert.deepStrictEqual(listed, { configs: [{ taskId, id: "one", url: `${hook}/other` }], nextPageToken: "" })
      for (const method of ["Create", "Get", "List", "Delete"]) {
        const name = `${method}TaskPushNotificationConfig${method === "List" ? "s" : ""}`
        const refused = yield* call(name, { taskId, id: "one", url: hook }, by("bob"))
        assert.strictEqual(errorOf(refused).code, -32001, method)
      }
      for (let count = 2; count <= 8; count++) yield* call("CreateTaskPushNotificationConfig", { taskId, url: hook })
      const ninth = yield* call("CreateTaskPushNotificationConfig", { taskId, url: hook })
      assert.deepStrictEqual(fieldsOf(errorOf(ninth)), ["taskId"])
      assert.deepStrictEqual(resultOf(yield* call("DeleteTaskPushNotificationConfig", { taskId, id: "one" })), {})
      const gone = yield* call("GetTaskPushNotificationConfig", { taskId, id: "one" })
      assert.strictEqual(errorOf(gone).code, -32001)
      yield* Deferred.succeed(proceed, undefined)
    })
  )

  it.live("is told which fields of a place are wrong", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")], yield* configured)
      const taskId = taskOf(yield* post(`${url}/a2a`, rpc("SendMessage", message())))
      const wrong = {
        url: "ftp://a.test/",
        id: "a b",
        token: "a\nb",
        authentication: { scheme: "Be arer", credentials: "a".repeat(4_097) }
      }
      const fields = ["authentication.credentials", "authentication.scheme", "id", "token", "url"]
      const created = yield* post(`${url}/a2a`, rpc("CreateTaskPushNotificationConfig", { taskId, ...wrong }))
      assert.deepStrictEqual(fieldsOf(errorOf(created)), fields)
      const sent = { ...message(), configuration: { taskPushNotificationConfig: { url: "http://user:pw@a.test/" } } }
      assert.deepStrictEqual(fieldsOf(errorOf(yield* post(`${url}/a2a`, rpc("SendMessage", sent)))), [
        "configuration.taskPushNotificationConfig.url"
      ])
    })
  )

  it.live("asks the same over HTTP+JSON, of 1.0 and of 0.3", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")], yield* configured)
      const taskId = taskOf(yield* post(`${url}/a2a`, rpc("SendMessage", message())))
      for (const [base, place, shown] of [
        ["a2a", { url: "http://a.test/", id: "a" }, { taskId, id: "a", url: "http://a.test/" }],
        [
          "a2a/v1",
          { name: "", pushNotificationConfig: { url: "http://b.test/", id: "a" } },
          {
            name: `tasks/${taskId}/pushNotificationConfigs/a`,
            pushNotificationConfig: { id: "a", url: "http://b.test/" }
          }
        ]
      ] as const) {
        const path = `${url}/${base}/tasks/${taskId}/pushNotificationConfigs`
        assert.deepStrictEqual((yield* post(path, place)).body, shown)
        assert.deepStrictEqual((yield* send(`${path}/a`)).body, shown)
        assert.deepStrictEqual((yield* send(path)).body, { configs: [shown], nextPageToken: "" })
        assert.strictEqual((yield* send(`${path}/a`, { method: "DELETE" })).status, 200)
        assert.strictEqual((yield* send(`${path}/a`)).status, 404)
      }
    })
  )

  it.live("gets nothing to an address that the egress rules deny", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const script = [[say("a"), until(Deferred.await(proceed))]]
      const { url } = yield* start(script, { ...(yield* configured), BOWLINE_EGRESS_DENY: "127.0.0.2" })
      const { requests, url: hook } = yield* receiver()
      const denied = yield* receiver()
      const { port } = new URL(denied.url)
      const taskId = taskOf(yield* post(`${url}/a2a`, rpc("SendMessage", brought(`http://127.0.0.2:${port}/`))))
      yield* post(`${url}/a2a`, rpc("CreateTaskPushNotificationConfig", { taskId, url: hook }))
      yield* Deferred.succeed(proceed, undefined)
      yield* requests.awaitCount(2)
      assert.deepStrictEqual(yield* denied.requests.all, [])
    })
  )

  it.live(
    "is told by the next process what the last one could not, and nothing of its secrets stands in the store",
    () =>
      Effect.gen(function* () {
        const settings = yield* stores.postgres
        const key = { BOWLINE_SECRET_KEY: Buffer.alloc(32, 7).toString("base64") }
        const environment = { ...settings, ...key, ...(yield* configured) }
        let isBack = false
        const { requests, url: hook } = yield* receiver((count) => (count === 1 || isBack ? 200 : 503))
        const first = yield* Scope.make()
        const { url } = yield* Scope.provide(
          start(() => [say("abc")], environment),
          first
        )
        yield* post(
          `${url}/a2a`,
          rpc("SendMessage", { ...brought(hook), configuration: { taskPushNotificationConfig: config(hook) } })
        )
        yield* requests.awaitCount(3)
        for (const [table, rows] of yield* dump(settings.DATABASE_URL)) assert.notInclude(rows, secret, table)
        yield* Scope.close(first, Exit.void)
        const before = (yield* requests.all).length
        isBack = true
        yield* start(() => [say("never")], environment)
        const all = yield* requests.awaitCount(before + 2)
        assert.deepStrictEqual(bodies(all.slice(before)).map(wordOf), told.slice(1))
        assert.strictEqual(all.at(-1)?.headers["authorization"], `Bearer ${secret}`)
      })
  )
})
