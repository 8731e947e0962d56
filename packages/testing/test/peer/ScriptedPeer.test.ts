import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Stream } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { TestClock } from "effect/testing"
import * as MemoryNetwork from "../../src/http/MemoryNetwork.ts"
import { appends, becomes, completes, produces, says, stuck, works } from "../../src/peer/Act.ts"
import { serve } from "../../src/peer/ScriptedPeer.ts"
import * as Trouble from "../../src/peer/Trouble.ts"

const uuid = (n: number) => `00000000-0000-4000-8000-00000000000${n}`

const message = { kind: "message", role: "user", messageId: uuid(1), parts: [{ kind: "text", text: "Hello" }] }
const bindu = {
  message: { ...message, taskId: uuid(2), contextId: uuid(3) },
  configuration: { acceptedOutputModes: ["text/plain"] }
}

interface Task {
  readonly id: string
  readonly status: { readonly state: string; readonly message?: { readonly parts: ReadonlyArray<{ text: string }> } }
  readonly history: ReadonlyArray<{ readonly role: string }>
  readonly artifacts?: ReadonlyArray<unknown>
}
interface Reply {
  readonly result?: Task
  readonly error?: { readonly code: number; readonly message: string }
}

/** One request, as it is written. */
const post = (url: string, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
  HttpClientRequest.post(url, { headers }).pipe(
    HttpClientRequest.bodyJsonUnsafe(body),
    HttpClient.execute,
    Effect.flatMap((response) => response.json),
    Effect.map((json) => json as unknown as Reply)
  )

const rpc = (method: string, params: unknown) => ({ jsonrpc: "2.0", id: uuid(9), method, params })
const call = (url: string, method: string, params: unknown) => post(url, rpc(method, params))

describe("a scripted peer", () => {
  const send = (params: unknown) => rpc("message/send", params)

  it.effect.each([
    ["no jsonrpc", "a2a-0.3", -32600, { id: uuid(9), method: "message/send", params: { message } }],
    ["a method of A2A 1.0", "a2a-0.3", -32601, rpc("SendMessage", { message })],
    ["no messageId", "a2a-0.3", -32602, send({ message: { ...message, messageId: undefined } })],
    ["no kind of the message", "a2a-0.3", -32602, send({ message: { ...message, kind: undefined } })],
    ["no kind of a part", "a2a-0.3", -32602, send({ message: { ...message, parts: [{ text: "Hello" }] } })],
    ["a role of A2A 1.0", "a2a-0.3", -32602, send({ message: { ...message, role: "ROLE_USER" } })],
    ["an id that the client made", "a2a-0.3", -32001, send({ message: { ...message, taskId: uuid(2) } })],
    ["a stream, as it does not stream,", "a2a-0.3", -32004, rpc("message/stream", { message })],
    ["a member that is not known", "a2a-0.3", -32602, send({ message, returnImmediately: true })],
    ["taskId", "a2a-0.3", -32602, rpc("tasks/get", { taskId: uuid(2) })],
    ["a task that is not known", "a2a-0.3", -32001, rpc("tasks/get", { id: uuid(2) })],
    ["no taskId of the message", "bindu", -32602, send({ ...bindu, message })],
    ["a taskId that is no UUID", "bindu", -32602, send({ ...bindu, message: { ...bindu.message, taskId: "one" } })],
    ["no configuration", "bindu", -32602, send({ message: bindu.message })],
    ["no acceptedOutputModes", "bindu", -32602, send({ ...bindu, configuration: { blocking: false } })],
    ["id", "bindu", -32602, rpc("tasks/cancel", { id: uuid(2) })],
    ["task_id", "bindu", -32602, rpc("tasks/cancel", { task_id: uuid(2) })]
  ] as const)("refuses %s in %s with %i", ([, dialect, code, body]) =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, acts: [completes()] })
      const { error } = yield* post(peer.url, body)
      assert.strictEqual(error?.code, code)
      const { refused, sends } = yield* peer.seen
      assert.deepStrictEqual(
        [sends.length, refused.length],
        [0, code === -32001 && body.method !== "message/send" ? 0 : 1]
      )
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("goes through its acts on the clock", () =>
    Effect.gen(function* () {
      const peer = yield* serve({
        acts: [works("2 seconds"), says("Halfway"), works("2 seconds"), produces("Report"), completes("Done")]
      })
      const { result } = yield* call(peer.url, "message/send", { message })
      assert.strictEqual(result?.status.state, "working")
      const get = Effect.map(call(peer.url, "tasks/get", { id: result?.id }), ({ result }) => result)
      yield* TestClock.adjust("2 seconds")
      const halfway = yield* get
      assert.deepStrictEqual(
        [halfway?.status.state, halfway?.status.message?.parts[0]?.text, halfway?.history.length],
        ["working", "Halfway", 1]
      )
      yield* TestClock.adjust("2 seconds")
      const done = yield* get
      assert.deepStrictEqual(
        [done?.status.state, done?.history.map(({ role }) => role), done?.artifacts?.length],
        ["completed", ["user", "agent"], 1]
      )
      assert.strictEqual((yield* call(peer.url, "tasks/cancel", { id: result?.id })).error?.code, -32002)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect.each([
    ["obey", "canceled"],
    ["ignore", "working"]
  ] as const)("can %s a cancel", ([onCancel, state]) =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect: "bindu", onCancel, acts: [stuck] })
      const waiting = yield* Effect.forkChild(peer.cancelled)
      yield* call(peer.url, "message/send", bindu)
      yield* call(peer.url, "tasks/cancel", { taskId: uuid(2) })
      assert.strictEqual(yield* Fiber.join(waiting), uuid(2))
      yield* TestClock.adjust("1 hour")
      assert.strictEqual((yield* call(peer.url, "tasks/get", { taskId: uuid(2) })).result?.status.state, state)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("has trouble for as many requests as told, and then acts, unless the trouble replaces its act", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect: "bindu", acts: [stuck] })
      yield* peer.disturb("message/send", Trouble.answers(503, {}, "no"), Trouble.cutsAnswer)
      const get = call(peer.url, "tasks/get", { taskId: uuid(2) })
      yield* Effect.flip(call(peer.url, "message/send", bindu))
      assert.strictEqual((yield* get).error?.code, -32001)
      yield* Effect.flip(call(peer.url, "message/send", bindu))
      assert.strictEqual((yield* get).result?.status.state, "working")
      yield* call(peer.url, "message/send", bindu)
      assert.strictEqual((yield* peer.seen).sends.length, 3)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )
})

const happened = (event: string) => {
  const { result } = JSON.parse(event.replace(/^data: /, "")) as { readonly result: Happened }
  const { artifact, final, kind, status } = result
  const words = status?.message?.parts[0]?.text ?? artifact?.parts.map(({ text }) => text).join()
  return [kind, status?.state, words, final].filter((member) => member !== undefined).join(" ")
}
interface Happened {
  readonly kind: string
  readonly status?: Task["status"]
  readonly artifact?: { readonly parts: ReadonlyArray<{ readonly text: string }> }
  readonly final?: boolean
}

/** Follows a stream: every event as `second: what`, and how it ended. */
const follow = Effect.fnUntraced(function* (url: string, method: string, params: unknown) {
  const seen: Array<string> = []
  const note = (what: string) => Effect.map(Clock.currentTimeMillis, (now) => seen.push(`${now / 1_000}: ${what}`))
  const request = HttpClientRequest.bodyJsonUnsafe(HttpClientRequest.post(url), rpc(method, params))
  yield* HttpClient.execute(request).pipe(
    Effect.flatMap(({ stream }) => Stream.runForEach(Stream.decodeText(stream), (event) => note(happened(event)))),
    Effect.matchEffect({ onFailure: () => note("broken"), onSuccess: () => note("closed") }),
    Effect.forkChild({ startImmediately: true })
  )
  return seen
})

describe("a scripted peer in A2A 1.0", () => {
  const part = { text: "Hello" }
  const asked = { role: "ROLE_USER", messageId: uuid(1), parts: [part] }
  const send = (params: unknown) => rpc("SendMessage", params)
  const version = { "a2a-version": "1.0" }

  it.effect.each([
    ["no version", -32009, {}, send({ message: asked })],
    ["another version", -32009, { "a2a-version": "0.3" }, send({ message: asked })],
    ["a method of A2A 0.3", -32601, version, rpc("message/send", { message: asked })],
    ["a kind of the message", -32602, version, send({ message: { ...asked, kind: "message" } })],
    ["a kind of a part", -32602, version, send({ message: { ...asked, parts: [{ ...part, kind: "text" }] } })],
    ["a role of A2A 0.3", -32602, version, send({ message: { ...asked, role: "user" } })],
    ["a wait flag of A2A 0.3", -32602, version, send({ message: asked, configuration: { blocking: false } })],
    ["a part of two kinds", -32602, version, send({ message: { ...asked, parts: [{ ...part, data: {} }] } })],
    ["an id that the client made", -32001, version, send({ message: { ...asked, taskId: uuid(2) } })],
    ["taskId", -32602, version, rpc("GetTask", { taskId: uuid(2) })],
    ["a stream, as it does not stream,", -32004, version, rpc("SendStreamingMessage", { message: asked })]
  ] as const)("refuses %s with %i", ([, code, headers, body]) =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect: "a2a-1.0", acts: [completes()] })
      assert.strictEqual((yield* post(peer.url, body, headers)).error?.code, code)
      assert.strictEqual((yield* peer.seen).refused.length, 1)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("does not resume the stream of a task that is over", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect: "a2a-1.0", streams: true, acts: [completes()] })
      yield* post(peer.url, send({ message: asked, configuration: { returnImmediately: true } }), version)
      const [sent] = (yield* peer.seen).sends
      assert.deepStrictEqual(sent?.message.parts, [{ kind: "text", text: "Hello" }])
      const again = yield* post(peer.url, rpc("SubscribeToTask", { id: sent?.taskId }), version)
      assert.strictEqual(again.error?.code, -32004)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )
})

describe("a scripted peer that streams", () => {
  const acts = [
    works("1 second"),
    says("Halfway"),
    works("1 second"),
    produces("one"),
    appends("two"),
    becomes("input-required", "Which?"),
    works("1 second"),
    completes("never told")
  ]

  it.effect("tells the task, then what happens to it when it happens, and closes with the state that is final", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ streams: true, acts })
      const seen = yield* follow(peer.url, "message/stream", { message })
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(seen, [
        "0: task submitted",
        "0: status-update working false",
        "1: status-update working Halfway false",
        "2: artifact-update one",
        "2: artifact-update two",
        "2: status-update input-required Which? true",
        "2: closed"
      ])
      const { sends, streams } = yield* peer.seen
      assert.deepStrictEqual([sends.length, streams.length], [0, 1])
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect.each([
    ["cut", Trouble.cutsBehind(2), "0: broken"],
    ["reset", Trouble.resetsBehind(2), "0: broken"],
    ["stalled", Trouble.stallsBehind(2), undefined]
  ] as const)("can be subscribed to again after a stream that was %s", ([, trouble, end]) =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect: "bindu", streams: true, acts })
      yield* peer.disturb("message/stream", trouble)
      const broken = yield* follow(peer.url, "message/stream", bindu)
      yield* TestClock.adjust("1500 millis")
      assert.deepStrictEqual([broken.length, broken[2]], [end === undefined ? 2 : 3, end])
      const seen = yield* follow(peer.url, "tasks/resubscribe", { taskId: uuid(2) })
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(seen[0], "1.5: task working Halfway")
      assert.deepStrictEqual(seen.slice(-2), ["2: status-update input-required Which? true", "2: closed"])
      assert.deepStrictEqual((yield* peer.seen).subscriptions, [uuid(2)])
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("tells every stream of a task that it is cancelled, and closes them", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect: "bindu", streams: true, acts: [stuck] })
      const first = yield* follow(peer.url, "message/stream", bindu)
      const second = yield* follow(peer.url, "tasks/resubscribe", { taskId: uuid(2) })
      yield* TestClock.adjust("1 second")
      yield* call(peer.url, "tasks/cancel", { taskId: uuid(2) })
      yield* TestClock.adjust("1 second")
      for (const seen of [first, second]) {
        assert.deepStrictEqual(seen.slice(-2), ["1: status-update canceled true", "1: closed"])
      }
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )
})

it.effect("a scripted peer continues a task that it has handed back, and not one that is over", () =>
  Effect.gen(function* () {
    const peer = yield* serve({
      acts: ({ continues }) => [continues ? completes("Done") : becomes("input-required", "Which?")]
    })
    const { result } = yield* call(peer.url, "message/send", { message })
    const more = { message: { ...message, messageId: uuid(5), taskId: result?.id } }
    const done = (yield* call(peer.url, "message/send", more)).result
    assert.deepStrictEqual(
      [done?.id, done?.status.state, done?.history.map(({ role }) => role)],
      [result?.id, "completed", ["user", "agent", "user"]]
    )
    assert.strictEqual((yield* call(peer.url, "message/send", more)).error?.code, -32600)
  }).pipe(Effect.provide(MemoryNetwork.layer))
)
