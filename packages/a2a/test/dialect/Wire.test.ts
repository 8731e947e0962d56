import { assert, describe, it } from "@effect/vitest"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { json } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import { Effect, Fiber, Layer, Result } from "effect"
import { TestClock } from "effect/testing"
import { a2a03 } from "../../src/dialect/A2a03.ts"
import { a2a10 } from "../../src/dialect/A2a10.ts"
import { bindu } from "../../src/dialect/Bindu.ts"
import { memory, question, start } from "../peer/call.ts"
import golden03 from "./golden/a2a-0.3.json" with { type: "json" }
import golden10 from "./golden/a2a-1.0.json" with { type: "json" }
import goldenBindu from "./golden/bindu.json" with { type: "json" }

const counted = Layer.sync(UuidGenerator, () => {
  let count = 100
  return () => `00000000-0000-4000-8000-000000000${++count}`
})

describe.each([
  ["a2a-1.0", a2a10, golden10],
  ["a2a-0.3", a2a03, golden03],
  ["bindu", bindu, goldenBindu]
] as const)("the wire of %s", (dialect, codec, golden) => {
  it.effect("has these requests for a call that is sent, polled once and interrupted", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const host = yield* network.serve(() => Effect.succeed(json(200, { jsonrpc: "2.0", result: golden.begun })))
      const { fiber } = yield* start(question(host.url, { dialect }))
      yield* TestClock.adjust("60 millis")
      yield* Fiber.interrupt(fiber)
      const requests = yield* host.requests.awaitCount(3)
      assert.deepStrictEqual(
        requests.map(({ body }) => JSON.parse(body) as unknown),
        golden.requests
      )
      for (const { headers, method, url } of requests) {
        assert.deepStrictEqual([method, url.pathname, headers["content-type"]], ["POST", "/", "application/json"])
        assert.strictEqual(headers["a2a-version"], dialect === "a2a-1.0" ? "1.0" : undefined)
      }
    }).pipe(Effect.provide(memory.pipe(Layer.provide(counted))))
  )

  it("reads this answer as this task", () => {
    assert.deepStrictEqual<unknown>(Result.getOrThrow(codec.taskOf(golden.answer)), golden.task)
  })

  it("reads these events as these updates", () => {
    assert.deepStrictEqual<unknown>(
      golden.events.map((event) => Result.getOrThrow(codec.updateOf(event))),
      golden.updates
    )
  })

  it("knows the id of a task that does not decode", () => {
    assert.strictEqual(codec.taskIdOf(golden.begun), "remote-task")
    assert.isNull(codec.taskIdOf({ status: 1 }))
  })

  const state = dialect === "a2a-1.0" ? "TASK_STATE_WORKING" : "working"
  const ids = ["", "x".repeat(513), "remote\ntask", "remote\u0085task"]
  it.each(ids)("does not read a task of the id %j, nor cancels it", (id) => {
    assert.isTrue(Result.isFailure(codec.taskOf({ id, status: { state } })))
    assert.isNull(codec.taskIdOf({ id, status: { state } }))
  })

  it.each(ids.slice(1))("does not read a task in the context %j", (contextId) => {
    assert.isTrue(Result.isFailure(codec.taskOf({ id: "remote-task", contextId, status: { state } })))
  })

  it("reads ids of 512 characters", () => {
    const id = "é".repeat(512)
    assert.deepInclude(Result.getOrThrow(codec.taskOf({ id, contextId: id, status: { state } })), { id, contextId: id })
  })
})

describe.each([a2a03, bindu])("an update of $dialect that names no task", (codec) => {
  it.each([
    { kind: "status-update", status: { state: "working" } },
    { kind: "artifact-update", artifact: { parts: [] } }
  ])("names none in $kind", (event) => {
    assert.deepInclude(Result.getOrThrow(codec.updateOf(event)), { taskId: null })
  })
})

describe("A2A 1.0", () => {
  it("reads an empty id that may be left out as none", () => {
    const task = Result.getOrThrow(a2a10.taskOf({ message: { taskId: "", contextId: "", parts: [{ text: "Hi" }] } }))
    assert.deepInclude(task, { id: null, contextId: null })
  })

  it.each([
    ["TASK_STATE_COMPLETED", "completed"],
    ["TASK_STATE_AUTH_REQUIRED", "auth-required"],
    ["TASK_STATE_UNSPECIFIED", "unspecified"],
    ["TASK_STATE_DEEP_IN_THOUGHT", "deep-in-thought"]
  ])("calls %s %s", (state, name) => {
    const task = Result.getOrThrow(a2a10.taskOf({ id: "remote-task", status: { state } }))
    assert.strictEqual(task.state, name)
  })

  it.each([
    [{ task: { id: "remote-task", status: {} } }, /"task"\]\["status"\]\["state"\]/],
    [{ message: { parts: [{ text: 1 }] } }, /Expected text to be a string/],
    [{ statusUpdate: { status: { state: "TASK_STATE_WORKING" } } }, /"taskId"/]
  ])("says what does not decode of %j", (result, why) => {
    assert.match(String(Result.getOrThrow(Result.flip(a2a10.updateOf(result)))), why)
  })
})
