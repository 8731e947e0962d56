import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import { Rejected, StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStreams } from "@bowline/runtime/plan/PlanStreams"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { waitFor } from "../../src/http/JsonAnswer.ts"

const ids = {
  plan_id: PlanId.make("plan_00000000-0000-4000-8000-000000000001"),
  session_id: SessionId.make("session_00000000-0000-4000-8000-000000000002")
}

describe("a caller that waits for one object", () => {
  it.effect("gets the id of its plan when the database is away, and nothing more than that of a bug", () =>
    Effect.gen(function* () {
      const services = { plans: yield* Plans, streams: yield* PlanStreams }
      const failing = (reason: StorageError["reason"]) =>
        Effect.flip(waitFor(services, anonymous, ids, Stream.fail(new StorageError({ reason }))))
      assert.deepInclude(yield* failing(new Unavailable({ cause: "?" })), { code: "unavailable", plan_id: ids.plan_id })
      assert.strictEqual((yield* failing(new Rejected({ cause: "?" })))._tag, "StorageError")
    }).pipe(Effect.provide(Layer.mergeAll(Layer.mock(Plans, {}), Layer.mock(PlanStreams, {}))))
  )
})
