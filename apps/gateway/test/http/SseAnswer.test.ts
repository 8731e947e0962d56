import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import { LivePlan } from "@bowline/runtime/unstable/stream/LivePlan"
import { PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Latch, Stream } from "effect"
import * as SseAnswer from "../../src/http/SseAnswer.ts"

const frame = (seq: number, event: PlanFrame["event"] = "text.delta"): PlanFrame => ({
  seq,
  at: "2026-01-01T00:00:00.000Z",
  event,
  payload: "{}"
})

/** Somebody who reads a plan in the words of another protocol. `said` is what has been written, and which way. */
const listen = Effect.fnUntraced(function* (reached: Effect.Effect<void> = Effect.never) {
  const live = new LivePlan(yield* Effect.scope, () => undefined)
  const read = Effect.map(live.attach(0), (reading) => ({
    plan_id: PlanId.make("plan_00000000-0000-4000-8000-000000000001"),
    session_id: SessionId.make("session_00000000-0000-4000-8000-000000000001"),
    ...reading
  }))
  const { follow } = yield* PlanFollower
  const plan = follow(anonymous, yield* read)
  const said: Array<string> = []
  const taken = Latch.makeUnsafe(true)
  const { body } = SseAnswer.translated<PlanFrame, unknown>({
    frames: plan.frames,
    shortCut: {
      from: (write) => plan.shortCut?.(write),
      to: (bytes) => said.push(`past ${bytes.toString()}`) > 0
    },
    next: ({ seq }) => (seq === 9 ? "" : `${seq} `),
    pause: { look: () => undefined, reached },
    end: (why) => why
  })
  if (body._tag !== "Stream") return assert.fail("The answer is no stream")
  const reading = yield* Effect.forkScoped(
    Stream.runForEachArray(Stream.orDie(body.stream), (pieces) => {
      said.push(...pieces.map((bytes) => Buffer.from(bytes).toString()).filter((text) => text !== ""))
      return taken.await
    }),
    { startImmediately: true }
  )
  const publish = Effect.fnUntraced(function* (...frames: ReadonlyArray<PlanFrame>) {
    live.publish(frames)
    yield* Effect.repeat(Effect.yieldNow, { times: 20 })
  })
  return { live, said, taken, publish, reading }
})

const follower = Effect.provide(
  PlanFollower.layerOf(
    Effect.succeed({
      isDraining: Effect.succeed(false),
      watch: () => Effect.succeed({ news: Effect.never, isClosed: () => false }),
      read: () => Effect.die("Nobody reads it again")
    })
  )
)

describe("a plan in another protocol", () => {
  it.effect("goes past its stream while it says a text, and through it with what may end or pause it", () =>
    Effect.gen(function* () {
      const { live, publish, said } = yield* listen()
      yield* publish(frame(1, "step"))
      yield* publish(frame(2), frame(3, "reasoning.delta"))
      yield* publish(frame(4), frame(5, "usage"))
      live.publish([frame(6, "usage")])
      yield* publish(frame(7))
      // It shows nothing.
      yield* publish(frame(9))
      yield* publish(frame(10))
      assert.deepStrictEqual(said, ["1 ", "past 2 3 ", "4 5 ", "6 7 ", "past 10 "])
    }).pipe(Effect.scoped, follower)
  )

  it.effect("keeps its order while the connection takes nothing", () =>
    Effect.gen(function* () {
      const { publish, said, taken } = yield* listen()
      taken.closeUnsafe()
      yield* publish(frame(1, "step"))
      yield* publish(frame(2))
      yield* publish(frame(3))
      assert.deepStrictEqual(said, ["1 "])
      taken.openUnsafe()
      yield* publish(frame(4))
      assert.deepStrictEqual(said, ["1 ", "2 3 ", "past 4 "])
    }).pipe(Effect.scoped, follower)
  )

  it.effect("ends at a pause while it waits", () =>
    Effect.gen(function* () {
      const reached = yield* Deferred.make<void>()
      const { publish, reading, said } = yield* listen(Deferred.await(reached))
      yield* publish(frame(1, "step"))
      yield* Deferred.succeed(reached, undefined)
      yield* Fiber.join(reading)
      assert.deepStrictEqual(said, ["1 ", "paused"])
    }).pipe(Effect.scoped, follower)
  )
})
