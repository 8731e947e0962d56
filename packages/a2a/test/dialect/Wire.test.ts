import { assert, describe, it } from "@effect/vitest"
import { UuidGenerator } from "@bowline/runtime/id/UuidGenerator"
import { json } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import { Effect, Fiber, Layer, Result } from "effect"
import { TestClock } from "effect/testing"
import { taskOf } from "../../src/dialect/WireTask.ts"
import { memory, question, start } from "../peer/call.ts"
import a2a03 from "./golden/a2a-0.3.json" with { type: "json" }
import bindu from "./golden/bindu.json" with { type: "json" }

const counted = Layer.sync(UuidGenerator, () => {
  let count = 100
  return () => `00000000-0000-4000-8000-000000000${++count}`
})

describe.each([
  ["a2a-0.3", a2a03],
  ["bindu", bindu]
] as const)("the wire of %s", (dialect, golden) => {
  it.effect("has these requests for a call that is sent, polled once and interrupted", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const result = { kind: "task", id: "remote-task", status: { state: "working" } }
      const host = yield* network.serve(() => Effect.succeed(json(200, { jsonrpc: "2.0", result })))
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
        assert.notProperty(headers, "a2a-version")
      }
    }).pipe(Effect.provide(memory.pipe(Layer.provide(counted))))
  )

  it("reads this answer as this task", () => {
    assert.deepStrictEqual<unknown>(Result.getOrThrow(taskOf(golden.answer)), golden.task)
  })
})
