import { PlanId } from "@bowline/domain/plan/Plan"
import { pass } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Scope } from "effect"
import { SessionLock } from "../../src/lock/SessionLock.ts"
import { type Notice, Notices } from "../../src/store/Notices.ts"
import { RemotePlans } from "../../src/stream/RemotePlans.ts"
import * as Word from "./Word.ts"

const plan_id = PlanId.make("plan_00000000-0000-0000-0000-000000000001")
const said = (_tag: "Reading" | "Left") => ({ _tag, replica: "b", plan_ids: [plan_id] })
const settle = pass("1 millis", "1 millis")

const setUp = () => {
  const word = Word.make()
  const layer = RemotePlans.layer.pipe(
    Layer.provide([
      Layer.mock(SessionLock, {
        replica: "b",
        isOverdue: () => false,
        leaseTtl: () => undefined,
        duties: () => ({ isOldest: true, mayPark: true, others: 0 })
      }),
      word.layer
    ])
  )
  return { ...word, layer }
}

const connect = Effect.gen(function* () {
  const plans = yield* RemotePlans
  const scope = yield* Scope.make()
  const { news } = yield* Scope.provide(plans.connect(plan_id), scope)
  return { news, leave: Scope.close(scope, Exit.void) }
})

describe("RemotePlans", () => {
  it.effect(
    "say that a plan is read when the first reader comes, again every 5 s, and that the last one has left",
    () => {
      const { layer, published } = setUp()
      return Effect.gen(function* () {
        const first = yield* connect
        const second = yield* connect
        yield* settle
        assert.deepStrictEqual(published, [said("Reading")])
        yield* pass("10 seconds", "1 second")
        assert.deepStrictEqual(published, [said("Reading"), said("Reading"), said("Reading")])
        yield* first.leave
        yield* settle
        assert.lengthOf(published, 3)
        yield* second.leave
        yield* settle
        assert.deepStrictEqual(published.slice(3), [said("Left")])
        yield* pass("10 seconds", "1 second")
        assert.lengthOf(published, 4)
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("let nobody wait any more once they are closed, not even those who come later", () => {
    const { layer } = setUp()
    return Effect.gen(function* () {
      const plans = yield* RemotePlans
      const { isClosed, news } = yield* plans.connect(plan_id)
      const waiting = yield* Effect.forkChild(news)
      yield* settle
      assert.isUndefined(waiting.pollUnsafe())
      assert.isFalse(isClosed())
      yield* plans.close
      yield* Fiber.join(waiting)
      assert.isTrue(isClosed())
      assert.isTrue((yield* plans.connect(plan_id)).isClosed())
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.effect("let a reader look at once when there is something new, also if that was while it looked", () => {
    const { layer, tell } = setUp()
    return Effect.gen(function* () {
      const { news } = yield* connect
      tell({ _tag: "Advanced", plan_id })
      yield* news
      const waiting = yield* Effect.forkChild(news)
      yield* settle
      assert.isUndefined(waiting.pollUnsafe())
      tell({ _tag: "Advanced", plan_id })
      yield* Fiber.join(waiting)
    }).pipe(Effect.provide(layer))
  })

  it.effect("let a reader look every 5 s, every 250 ms when no notices arrive, and at once when they do again", () => {
    const { layer, listen } = setUp()
    return Effect.gen(function* () {
      const { news } = yield* connect
      const wait = Effect.forkChild(news)
      const slow = yield* wait
      yield* pass("4900 millis")
      assert.isUndefined(slow.pollUnsafe())
      yield* pass("200 millis")
      assert.isDefined(slow.pollUnsafe())

      const woken = yield* wait
      yield* settle
      listen(false)
      yield* Fiber.join(woken)
      const quick = yield* wait
      yield* pass("300 millis")
      assert.isDefined(quick.pollUnsafe())

      const back = yield* wait
      yield* settle
      listen(true)
      yield* Fiber.join(back)
    }).pipe(Effect.provide(layer))
  })

  it.effect("go on telling who reads here after a notice that could not be published because of a bug", () => {
    const published: Array<Notice> = []
    let isBroken = true
    const notices = Layer.succeed(Notices, {
      publish: (given) =>
        Effect.sync(() => {
          if (isBroken) throw new Error("broken")
          published.push(...given)
        }),
      subscribe: () => Effect.void,
      isListening: () => true
    })
    const layer = RemotePlans.layer.pipe(
      Layer.provide([
        Layer.mock(SessionLock, {
          replica: "b",
          isOverdue: () => false,
          leaseTtl: () => undefined,
          duties: () => ({ isOldest: true, mayPark: true, others: 0 })
        }),
        notices
      ])
    )
    return Effect.gen(function* () {
      yield* connect
      yield* settle
      isBroken = false
      yield* pass("5 seconds", "1 second")
      yield* settle
      assert.deepStrictEqual(published, [said("Reading")])
    }).pipe(Effect.provide(layer))
  })
})
