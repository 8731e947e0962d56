import { anonymous } from "@bowline/domain/caller/CallerName"
import { wait } from "@bowline/testing/http/Move"
import { question } from "@bowline/testing/unstable/provider/Script"
import { say, think } from "@bowline/testing/provider/Turn"
import * as Given from "@bowline/testing/unstable/store/Given"
import { layerOnStore, pass, post, readAll } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer, Stream } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { PlanStreams } from "../../src/plan/PlanStreams.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"

/** Room for three sessions of those below. */
const stores = MemoryStore.layerWith({ sessionTtl: Duration.days(30), maxBytes: 100_000 })

/** A session of 30 KB in which nothing runs any more. */
const newSession = Effect.gen(function* () {
  const held = yield* Given.createHeld()
  yield* Given.write(held, [yield* Given.appended("x".repeat(30_000))], [Given.row(2, "step")])
  yield* Given.finish(held)
  return held
})

/** More pieces than a replay reads at once, and the end a second later. */
const long = [...Array.from({ length: 400 }, () => [think("hm"), say("ah")]).flat(), wait("1 second")]

const churn = Effect.replicateEffect(newSession, 10)

const read = Effect.fnUntraced(function* ({ plan, session_id }: Given.Stored) {
  return yield* (yield* SessionStore).find(plan.caller, session_id)
})

/** Whether the session is there, without using it. */
const isThere = Effect.fnUntraced(function* ({ plan, session_id }: Given.Stored) {
  const { items } = yield* (yield* SessionStore).list(plan.caller, { limit: 10 })
  return items.some((session) => session.session_id === session_id)
})

describe("the bound of the stores in memory", () => {
  it.effect("drops the session that nobody has used for the longest time, with all it has", () =>
    Effect.gen(function* () {
      const [first, second, third] = [yield* newSession, yield* newSession, yield* newSession]
      yield* read(first)
      const fourth = yield* newSession
      assert.deepStrictEqual(yield* Effect.forEach([first, second, third, fourth], isThere), [true, false, true, true])
      assert.strictEqual((yield* Given.failureOf(Given.get(second)))?._tag, "NotFound")
      assert.deepStrictEqual(yield* Given.eventsOf(second), [])
      assert.deepStrictEqual(yield* (yield* SessionStore).history(second.session_id), [])
    }).pipe(Effect.provide(stores))
  )

  it.effect("keeps sessions in which a plan is queued or runs, and one whose lease is held", () =>
    Effect.gen(function* () {
      const [queued, running, held] = [yield* Given.create(), yield* Given.createHeld(), yield* Given.createHeld()]
      yield* Given.settle(held)
      yield* churn
      assert.deepStrictEqual(yield* Effect.forEach([queued, running, held], isThere), [true, true, true])
      yield* Given.finish(running)
      yield* churn
      assert.isFalse(yield* isThere(running))
    }).pipe(Effect.provide(stores))
  )

  it.effect("keeps a session as long as somebody reads one of its plans", () =>
    Effect.gen(function* () {
      const session = yield* newSession
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* (yield* PlanStore).reading(session.plan.plan_id)
          yield* churn
          assert.isTrue(yield* isThere(session))
        })
      )
      yield* churn
      assert.isFalse(yield* isThere(session))
    }).pipe(Effect.provide(stores))
  )

  it.effect("keeps the session that was used last, however large it is", () =>
    Effect.gen(function* () {
      const held = yield* Given.createHeld()
      yield* Given.write(held, [yield* Given.appended("x".repeat(200_000))])
      yield* Given.finish(held)
      assert.isTrue(yield* isThere(held))
    }).pipe(Effect.provide(stores))
  )

  it.effect("cuts no replay short, of a plan that is over or ends meanwhile", () =>
    Effect.gen(function* () {
      const streams = yield* PlanStreams
      const others = Effect.flatMap(post({ question: "x".repeat(30_000) }), ({ frames }) => readAll(frames)).pipe(
        Effect.scoped,
        Effect.provideService(PlanStreams, streams)
      )
      for (const age of ["2 seconds", "500 millis"] as const) {
        const { plan_id } = yield* post({ question: "?" })
        yield* pass(age)
        const replay = yield* streams.read(anonymous, plan_id, 0)
        const meanwhile = Effect.andThen(pass("2 seconds"), Effect.replicateEffect(others, 10))
        const events = yield* readAll(
          Stream.tap(replay.frames, (item) => (typeof item === "object" && item.seq === 1 ? meanwhile : Effect.void))
        )
        assert.deepInclude(events.at(-1), { event: "done" })
        assert.isAbove(events.length, long.length)
      }
    }).pipe(
      Effect.scoped,
      Effect.provide(
        Layer.provideMerge(layerOnStore({ script: (asked) => (question(asked) === "?" ? long : [say("ok")]) }), stores)
      )
    )
  )
})
