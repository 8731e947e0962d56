import { anonymous } from "@bowline/domain/caller/CallerName"
import { stall } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { pass } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Stream } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { headOf } from "../../src/planner/Resumption.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import { askAndKill, mortal } from "./Mortal.ts"

const ttl = Duration.seconds(15)
const ahead = "1970-01-02T00:00:00.000Z"

/** Takes the plan over, and writes an event with a clock that is a day ahead. */
const writeAhead = Effect.gen(function* () {
  const store = yield* PlanStore
  const [taken = assert.fail()] = yield* store.takeOver("replica_ahead", ttl, 1)
  const { guard, plan } = taken
  const { plan_id, session_id } = plan
  const payload = '{"code":"x","message":""}'
  const notice = { seq: headOf(taken).seq + 1, at: ahead, count: 1, event: "notice", payload } as const
  yield* store.commit([{ plan_id, session_id, guard, changes: [], events: [notice] }])
})

describe("the time of an event", () => {
  it.effect.each([
    ["resumed", true],
    ["ended", false]
  ] as const)("never goes back where a replica with a slower clock has %s the plan", ([, resume]) =>
    Effect.gen(function* () {
      const { plan_id } = yield* askAndKill(yield* mortal({ script: () => [say("half"), stall] }))
      yield* pass(ttl, "1 second")
      yield* writeAhead
      yield* pass(ttl, "1 second")
      const second = yield* mortal({ script: () => [say("whole")], config: { resume } })
      const { frames } = yield* second.streams.read(anonymous, plan_id, 0)
      const reader = yield* Effect.forkChild(Stream.runCollect(frames))
      yield* pass("30 seconds", "1 second")
      const read = (yield* Fiber.join(reader)).filter((item) => typeof item === "object")
      const from = read.findIndex(({ event }) => event === "notice")
      assert.strictEqual(read.at(-1)?.event, "done")
      assert.isTrue(read.slice(0, from).every(({ at }) => at < ahead))
      assert.deepStrictEqual(new Set(read.slice(from).map(({ at }) => at)), new Set([ahead]))
      const rows = yield* (yield* PlanStore).events(plan_id, 0, 100)
      assert.deepStrictEqual(
        read.map(({ at }) => at),
        rows.map(({ at }) => at)
      )
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )
})
