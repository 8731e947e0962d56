import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import { Rejected, StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { Plans } from "@bowline/runtime/plan/Plans"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { prefersJson, waitFor } from "../../src/http/JsonAnswer.ts"

const ids = {
  plan_id: PlanId.make("plan_00000000-0000-4000-8000-000000000001"),
  session_id: SessionId.make("session_00000000-0000-4000-8000-000000000002")
}

describe("a caller that waits for one object", () => {
  it.effect("gets the id of its plan when the database is away, and nothing more than that of a bug", () =>
    Effect.gen(function* () {
      const plans = yield* Plans
      const failing = (reason: StorageError["reason"]) => {
        const frames = Stream.fail(new StorageError({ reason }))
        const plan = { ...ids, frames, connect: () => () => undefined, leaveRunning: Effect.void }
        return Effect.flip(waitFor(plans, anonymous, plan))
      }
      assert.deepInclude(yield* failing(new Unavailable({ cause: "?" })), { code: "unavailable", plan_id: ids.plan_id })
      assert.strictEqual((yield* failing(new Rejected({ cause: "?" })))._tag, "StorageError")
    }).pipe(Effect.provide(Layer.mock(Plans, {})))
  )
})

describe("prefersJson", () => {
  it.each([
    [undefined, false],
    ["", false],
    ["*/*", false],
    ["text/html", false],
    ["text/event-stream", false],
    ["application/json", true],
    ["Application/JSON; charset=utf-8", true],
    ["application/*", true],
    ["application/json, text/plain, */*", true],
    ["text/event-stream, application/json", false],
    ["application/json, text/event-stream", true],
    ["application/json;q=0.5, text/event-stream", false],
    ["text/event-stream;q=0.5, application/json", true],
    ["application/json;q=0, */*", false],
    ["application/json;version=1;q=0.9, text/event-stream;q=0.8", true],
    ["text/event-stream, */*;q=0.1", false]
  ])("wants one object for %j: %s", (accept, expected) => {
    assert.strictEqual(prefersJson(accept), expected)
  })
})
