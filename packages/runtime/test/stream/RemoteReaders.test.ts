import { PlanId } from "@bowline/domain/plan/Plan"
import { pass } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import { LivePlan } from "../../src/stream/LivePlan.ts"
import * as RemoteReaders from "../../src/stream/RemoteReaders.ts"
import * as Word from "./Word.ts"

const plan_id = PlanId.make("plan_00000000-0000-0000-0000-000000000001")
const reading = { _tag: "Reading", replica: "b", plan_ids: [plan_id] } as const
const left = { ...reading, _tag: "Left" } as const
const advanced = { _tag: "Advanced", plan_id } as const

/** A plan with a reader of its own, who leaves when the test says so. */
const setUp = Effect.gen(function* () {
  const word = Word.make()
  let abandoned = 0
  const live = new LivePlan(yield* Effect.scope, () => void abandoned++)
  const reader = yield* Scope.make()
  yield* Scope.provide(live.attach(0), reader)
  let isHere = true
  const readers = yield* Effect.provide(
    RemoteReaders.serve((id) => (id === plan_id && isHere ? live : undefined)),
    word.layer
  )
  let seq = 0
  return {
    ...word,
    leave: Scope.close(reader, Exit.void),
    publish: () => live.publish([{ seq: ++seq, at: "2026-01-02T03:04:05.678Z", event: "step", payload: "{}" }]),
    abandoned: () => abandoned,
    end: () => {
      isHere = false
      readers.ended(plan_id)
    }
  }
})

const settle = pass("1 millis", "1 millis")

describe("RemoteReaders", () => {
  it.effect("count for as long as they say that they read, and not longer", () =>
    Effect.gen(function* () {
      const { tell, leave, abandoned } = yield* setUp
      tell(reading)
      yield* settle
      yield* leave
      assert.strictEqual(abandoned(), 0)
      tell(left)
      yield* settle
      assert.strictEqual(abandoned(), 1)
    })
  )

  it.effect("are believed to have left when they have said nothing for 15 s", () =>
    Effect.gen(function* () {
      const { tell, leave, abandoned } = yield* setUp
      tell(reading)
      yield* settle
      yield* leave
      for (let renewal = 0; renewal < 5; renewal++) {
        yield* pass("10 seconds", "1 second")
        tell(reading)
      }
      yield* pass("14 seconds", "1 second")
      assert.strictEqual(abandoned(), 0)
      yield* pass("2 seconds", "1 second")
      assert.strictEqual(abandoned(), 1)
    })
  )

  it.effect("are believed to be there for as long as no notices arrive, and 15 s more", () =>
    Effect.gen(function* () {
      const { tell, listen, leave, abandoned } = yield* setUp
      tell(reading)
      yield* settle
      yield* leave
      listen(false)
      yield* pass("70 seconds", "1 second")
      listen(true)
      yield* pass("14 seconds", "1 second")
      assert.strictEqual(abandoned(), 0)
      yield* pass("2 seconds", "1 second")
      assert.strictEqual(abandoned(), 1)
    })
  )

  it.effect("are told what is new, once for all that came meanwhile, and nobody else is", () =>
    Effect.gen(function* () {
      const { tell, publish, published } = yield* setUp
      publish()
      yield* settle
      assert.deepStrictEqual(published, [])
      tell(reading)
      yield* settle
      // What was stored before it was known that somebody reads.
      assert.deepStrictEqual(published, [advanced])
      for (let times = 0; times < 10; times++) publish()
      yield* settle
      // One that goes at once, and one for the nine that came meanwhile.
      assert.deepStrictEqual(published, [advanced, advanced, advanced])
      tell(left)
      yield* settle
      publish()
      yield* settle
      assert.lengthOf(published, 3)
    })
  )

  it.effect("are told of a plan that was over before anybody knew that they read it, once", () =>
    Effect.gen(function* () {
      const { tell, end, published } = yield* setUp
      end()
      yield* settle
      assert.deepStrictEqual(published, [])
      tell(reading)
      tell(reading)
      yield* settle
      assert.deepStrictEqual(published, [advanced])
    })
  )
})
