import * as Host from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Schedule } from "effect"
import { clients, readOut, readUntil } from "./Clients.ts"
import { bindings, type Call, type Given, type Members } from "./KitBindings.ts"
import { startForKit } from "./KitGateway.ts"
import { message, missing } from "./Requests.ts"

interface TaskShown {
  readonly id: string
  readonly contextId: string
  readonly status: { readonly state: string; readonly message?: { readonly parts: ReadonlyArray<Members> } }
  readonly artifacts?: ReadonlyArray<{ readonly artifactId: string; readonly parts: ReadonlyArray<Members> }>
  readonly history?: ReadonlyArray<{ readonly role: string; readonly parts: ReadonlyArray<Members> }>
}

const taskOf = ({ result }: Given) => (result["task"] ?? result) as TaskShown

let count = 0

/** A message that its prefix gives a script. */
const asked = (prefix: string, fields: object = {}, text = "Hi") =>
  message({ messageId: `${prefix}-${++count}`, parts: [{ text }], ...fields })

/** A task that waits for its client. */
const waiting = (call: Call, fields: object = {}) =>
  Effect.map(call("SendMessage", asked("tck-input-required", fields)), taskOf)

const completed = (call: Call) => Effect.map(call("SendMessage", asked("tck-complete-task")), taskOf)

const stateOf = ({ statusUpdate, task }: Members): string | undefined =>
  ((task ?? statusUpdate) as TaskShown | undefined)?.status.state

const statesOf = ({ events }: Given) => events.flatMap((event) => stateOf(event) ?? [])

/** What a client has that follows the rules, artifact by artifact. */
const artifactsOf = ({ events }: Given) => {
  const artifacts = new Map<string, ReadonlyArray<Members>>()
  for (const { artifactUpdate } of events) {
    if (artifactUpdate === undefined) continue
    const { append, artifact } = artifactUpdate as {
      readonly append: boolean
      readonly artifact: { readonly artifactId: string; readonly parts: ReadonlyArray<Members> }
    }
    const before = append ? (artifacts.get(artifact.artifactId) ?? []) : []
    artifacts.set(artifact.artifactId, [...before, ...artifact.parts])
  }
  return artifacts
}

const textOf = (parts: ReadonlyArray<Members> = []): string => parts.map(({ text = "" }) => text).join("")

class Subject extends Context.Service<Subject, { readonly url: string; readonly notifying: string }>()(
  "@bowline/gateway/test/Subject"
) {
  static readonly layer = Layer.effect(
    Subject,
    Effect.map(Effect.all([startForKit(false), startForKit(true)]), ([{ url }, notifying]) => ({
      url,
      notifying: notifying.url
    }))
  )
}

const output = { filename: "output.txt", mediaType: "text/plain" }
const artifacts = {
  "tck-artifact-text": { text: "Generated text content" },
  "tck-artifact-file": { raw: "dGNr", ...output },
  "tck-artifact-file-url": { url: "https://example.com/output.txt", ...output },
  "tck-artifact-data": { data: { key: "value", count: 42 }, mediaType: "application/json" }
}

const streams = {
  "tck-stream-001": "Stream hello from TCK",
  "tck-stream-002": "",
  "tck-stream-003": "Stream task lifecycle",
  "tck-stream-ordering-001": "Ordered output",
  "tck-stream-artifact-text": "Streamed text content",
  "tck-stream-artifact-chunked": "chunk-1 chunk-2"
}

layer(Subject.layer, { excludeTestServices: true })("what the public kit asks", (it) => {
  for (const name of ["JSON-RPC", "HTTP+JSON"] as const) {
    const over = bindings[name]
    const subject = Effect.map(Subject, ({ url }) => over(url))
    const sdk = Effect.flatMap(Subject, ({ url }) => Effect.promise(() => clients[`1.0 over ${name}`](url)))

    it.effect(`has its answer over ${name}: a task with its artifact, its state and its reason`, () =>
      Effect.gen(function* () {
        const call = yield* subject
        const done = yield* completed(call)
        assert.strictEqual(done.status.state, "TASK_STATE_COMPLETED")
        assert.strictEqual(textOf(done.artifacts?.[0]?.parts), "Hello from TCK")
        for (const [prefix, part] of Object.entries(artifacts)) {
          const { artifacts, status } = taskOf(yield* call("SendMessage", asked(prefix)))
          assert.deepStrictEqual([status.state, artifacts?.[0]?.parts], ["TASK_STATE_COMPLETED", [part]], prefix)
        }
        for (const [prefix, state] of [
          ["tck-input-required", "TASK_STATE_INPUT_REQUIRED"],
          ["tck-auth-required", "TASK_STATE_AUTH_REQUIRED"],
          ["tck-reject-task", "TASK_STATE_REJECTED"]
        ] as const) {
          const { id, status } = taskOf(yield* call("SendMessage", asked(prefix)))
          assert.strictEqual(status.state, state)
          assert.match(textOf(status.message?.parts), /\w/)
          const listed = (yield* call("ListTasks", { status: state })).result["tasks"] as ReadonlyArray<TaskShown>
          assert.include(
            listed.map((task) => task.id),
            id
          )
        }
      })
    )

    it.effect(`has its stream over ${name}: the task first, no state goes back, and the last event is the end`, () =>
      Effect.gen(function* () {
        const call = yield* subject
        for (const [prefix, text] of Object.entries(streams)) {
          const given = yield* call("SendStreamingMessage", asked(prefix))
          assert.property(given.events[0], "task", prefix)
          const states = statesOf(given)
          const order = ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
          const places = states.map((state) => order.indexOf(state))
          assert.deepStrictEqual(
            places,
            places.toSorted((one, other) => one - other),
            `${prefix}: ${states.join()}`
          )
          assert.strictEqual(stateOf(given.events.at(-1) ?? {}), "TASK_STATE_COMPLETED")
          assert.strictEqual(textOf(artifactsOf(given).get("answer")), text)
        }
        const files = artifactsOf(yield* call("SendStreamingMessage", asked("tck-stream-artifact-file")))
        assert.deepInclude(Array.from(files.values()), [artifacts["tck-artifact-file"]])
      })
    )

    it.effect(`continues a task over ${name}: in its context, with what was said, and never in another one`, () =>
      Effect.gen(function* () {
        const call = yield* subject
        const { contextId, id } = yield* waiting(call)
        const more = taskOf(yield* call("SendMessage", asked("tck-input-required", { taskId: id }, "one")))
        assert.deepInclude(more, { id, contextId })
        const mismatched = yield* call("SendMessage", asked("x", { taskId: id, contextId: "another" }))
        assert.strictEqual(mismatched.reason, "INVALID_PARAMS")
        const done = taskOf(yield* call("SendMessage", asked("tck-complete-task", { taskId: id }, "two")))
        assert.deepInclude(done, { id, contextId })
        const task = (historyLength: number) => Effect.map(call("GetTask", { id, historyLength }), taskOf)
        const said = (yield* task(50)).history?.flatMap(({ parts, role }) =>
          role === "ROLE_USER" ? [textOf(parts)] : []
        )
        assert.deepStrictEqual(said, ["Hi", "one", "two"])
        assert.lengthOf((yield* task(1)).history ?? [], 1)
        assert.notProperty(yield* task(0), "history")
        // Protocol buffers' own names of fields are good, too.
        assert.lengthOf(taskOf(yield* call("GetTask", { id, history_length: 1 })).history ?? [], 1)
        for (const [method, params, reason] of [
          ["SendMessage", asked("tck-complete-task", { taskId: id }), "UNSUPPORTED_OPERATION"],
          ["SubscribeToTask", { id }, "UNSUPPORTED_OPERATION"],
          ["CancelTask", { id }, "TASK_NOT_CANCELABLE"]
        ] as const) {
          assert.strictEqual((yield* call(method, params)).reason, reason, method)
        }
      })
    )

    it.effect(`follows a task that waits, over ${name}, until it is over, with the same events for each reader`, () =>
      Effect.gen(function* () {
        const call = yield* subject
        const client = yield* sdk
        const { id } = yield* waiting(call)
        const readers = [client.subscribe(id), client.subscribe(id), client.subscribe(id)] as const
        for (const reader of readers) {
          assert.deepInclude(yield* readUntil(reader, () => true), { kind: "task", state: "input-required" })
        }
        yield* Effect.promise(() => readers[2].return())
        yield* call("SendMessage", asked("tck-stream-001", { taskId: id }))
        const [one, two] = yield* Effect.all([readOut(readers[0]), readOut(readers[1])])
        assert.deepStrictEqual(one, two)
        assert.deepInclude(one.at(-1), { kind: "status", state: "completed", answer: "Stream hello from TCK" })
      })
    )

    it.effect(`cancels a task that waits, over ${name}, and tells its readers: it takes no further message`, () =>
      Effect.gen(function* () {
        const call = yield* subject
        const client = yield* sdk
        const { id } = yield* waiting(call)
        const reader = client.subscribe(id)
        yield* readUntil(reader, () => true)
        for (const _ of ["once", "again"]) {
          const { status } = taskOf(yield* call("CancelTask", { id }))
          assert.strictEqual(status.state, "TASK_STATE_CANCELED")
        }
        assert.deepInclude((yield* readOut(reader)).at(-1), { kind: "status", state: "canceled" })
        const missed = yield* call("SubscribeToTask", { id }, { "last-event-id": "4" })
        assert.deepStrictEqual(statesOf(missed).at(-1), "TASK_STATE_CANCELED")
        const nothing = yield* call("SubscribeToTask", { id }, { "last-event-id": "1.1" })
        assert.strictEqual(nothing.reason, "UNSUPPORTED_OPERATION")
        assert.strictEqual(taskOf(yield* call("GetTask", { id })).status.state, "TASK_STATE_CANCELED")
        const late = yield* call("SendMessage", asked("tck-complete-task", { taskId: id }))
        assert.strictEqual(late.reason, "UNSUPPORTED_OPERATION")
        const listed = (yield* call("ListTasks", { status: "TASK_STATE_CANCELED" })).result["tasks"]
        assert.include(
          (listed as ReadonlyArray<TaskShown>).map((task) => task.id),
          id
        )
      })
    )

    it.effect(`notifies over ${name}: a place is made, shown, listed and deleted, and told with its credentials`, () =>
      Effect.gen(function* () {
        const call = over((yield* Subject).notifying)
        const network = yield* Network
        const { requests, url } = yield* network.serve(() => Effect.succeed(Host.text(200, "")))
        const authentication = { scheme: "Bearer", credentials: "the credentials" }
        const taskPushNotificationConfig = { id: "a", url: `${url}/hook`, authentication }
        const sent = { ...asked("tck-input-required"), configuration: { taskPushNotificationConfig } }
        const { id: taskId } = taskOf(yield* call("SendMessage", sent))
        yield* call("SendMessage", asked("tck-complete-task", { taskId }))
        const told = yield* requests.awaitCount(4)
        for (const { body, headers } of told) {
          assert.strictEqual(headers["authorization"], "Bearer the credentials")
          assert.match(body, /^\{"(?:statusUpdate|artifactUpdate)":/)
        }
        const left = taskOf(yield* call("SendMessage", sent)).id
        yield* call("CancelTask", { id: left })
        const isLast = ({ body }: Host.HostRequest) => body.includes("CANCELED")
        yield* Effect.repeat(requests.all, { until: (all) => all.some(isLast), schedule: Schedule.spaced("20 millis") })
        const shown = { taskId, id: "b", url: "https://example.com/" }
        assert.deepStrictEqual((yield* call("CreateTaskPushNotificationConfig", shown)).result, shown)
        assert.deepStrictEqual((yield* call("GetTaskPushNotificationConfig", { taskId, id: "b" })).result, shown)
        const listed = (yield* call("ListTaskPushNotificationConfigs", { taskId })).result["configs"]
        assert.deepInclude(listed as ReadonlyArray<object>, shown)
        for (const _ of ["once", "again"]) {
          const deleted = yield* call("DeleteTaskPushNotificationConfig", { taskId, id: "b" })
          assert.deepStrictEqual([deleted.status, deleted.result], [200, {}])
        }
        assert.strictEqual((yield* call("GetTaskPushNotificationConfig", { taskId, id: "b" })).reason, "TASK_NOT_FOUND")
      }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
    )

    it.effect(`is refused over ${name} with the code of its error`, () =>
      Effect.gen(function* () {
        const call = yield* subject
        const { id } = yield* completed(call)
        const png = { configuration: { acceptedOutputModes: ["image/png"] } }
        const place = { taskId: id, url: "https://example.com/" }
        const isRpc = name === "JSON-RPC"
        for (const [method, params, reason, rpc, rest, headers] of [
          ["GetTask", { id: missing }, "TASK_NOT_FOUND", -32001, 404],
          ["CancelTask", { id: missing }, "TASK_NOT_FOUND", -32001, 404],
          ["SubscribeToTask", { id: missing }, "TASK_NOT_FOUND", -32001, 404],
          ["SendMessage", asked("x", { taskId: missing }), "TASK_NOT_FOUND", -32001, 404],
          ["CancelTask", { id }, "TASK_NOT_CANCELABLE", -32002, 400],
          ["CreateTaskPushNotificationConfig", place, "PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, 400],
          ["GetTaskPushNotificationConfig", { taskId: id, id: "a" }, "PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, 400],
          ["ListTaskPushNotificationConfigs", { taskId: id }, "PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, 400],
          ["DeleteTaskPushNotificationConfig", { taskId: id, id: "a" }, "PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, 400],
          ["SubscribeToTask", { id }, "UNSUPPORTED_OPERATION", -32004, 400],
          ["SendStreamingMessage", asked("x", { taskId: id }), "UNSUPPORTED_OPERATION", -32004, 400],
          [
            "SendMessage",
            asked("x", { parts: [{ raw: "aGk=", mediaType: "image/png" }] }),
            "INVALID_PARAMS",
            -32602,
            400
          ],
          ["SendMessage", { ...asked("x"), ...png }, "CONTENT_TYPE_NOT_SUPPORTED", -32005, 400],
          ["ListTasks", {}, "VERSION_NOT_SUPPORTED", -32009, 400, { "a2a-version": "99.0" }],
          ["SendMessage", {}, "INVALID_PARAMS", -32602, 400],
          ["ListTasks", { pageSize: 0 }, "INVALID_PARAMS", -32602, 400],
          ["NoSuchMethod", {}, "METHOD_NOT_FOUND", -32601, 404]
        ] as const) {
          const given = yield* call(method, params, headers)
          assert.deepStrictEqual(
            [given.reason, given.code, given.status],
            [reason, isRpc ? rpc : rest, isRpc ? 200 : rest],
            method
          )
        }
        const listed = (yield* call("ListTasks", { pageSize: 1 })).result
        assert.isString(listed["nextPageToken"])
        assert.lengthOf(listed["tasks"] as ReadonlyArray<unknown>, 1)
        assert.strictEqual((yield* call("GetExtendedAgentCard", {})).result["name"], "Bowline")
      })
    )
  }
})
