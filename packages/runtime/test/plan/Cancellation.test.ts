import { anonymous } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { ExternalSessionId } from "@bowline/domain/session/Session"
import { stall } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import * as Given from "@bowline/testing/unstable/store/Given"
import { layer, layerOnStore, pass, post } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Context, Duration, Effect, Fiber, Layer } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { PlanStreams } from "../../src/plan/PlanStreams.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { Sessions } from "../../src/plan/Sessions.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"

/** A replica that counts what it asks the store about one plan, and takes its time to store how a plan ended. */
const replica = Effect.fnUntraced(function* (settling: Duration.Input = 0) {
  const store = yield* PlanStore
  let statements = 0
  const counting = Layer.succeed(PlanStore, {
    ...store,
    get: (...given) => Effect.suspend(() => (statements++, store.get(...given))),
    requestAbort: (...given) => Effect.suspend(() => (statements++, store.requestAbort(...given))),
    commit: (batch) => {
      const isEnd = batch.some(({ changes }) => changes.some(({ _tag }) => _tag === "Settled"))
      return Effect.delay(store.commit(batch), isEnd ? settling : 0)
    }
  })
  const context = yield* Layer.build(
    Layer.provide(Layer.fresh(layerOnStore({ script: () => [say("half"), stall] })), counting)
  )
  const plans = Context.get(context, Plans)
  return {
    start: Effect.provideService(post({ question: "?" }), PlanStreams, Context.get(context, PlanStreams)),
    cancel: (id: PlanId) => Effect.forkChild(plans.cancel(anonymous, id)),
    statements: () => statements
  }
})

describe("a plan that is cancelled on another replica", () => {
  it.effect("is waited for without asking the database over and over, until it is settled", () =>
    Effect.gen(function* () {
      const [on, elsewhere] = [yield* replica("10 seconds"), yield* replica()]
      const { plan_id } = yield* on.start
      yield* pass("1 second")
      const cancelling = yield* elsewhere.cancel(plan_id)
      yield* pass("9990 millis", "10 millis")
      assert.isUndefined(cancelling.pollUnsafe())
      yield* pass("10 millis", "5 millis")
      assert.strictEqual((yield* Fiber.join(cancelling)).error?.reason, "cancelled")
      assert.isAtMost(elsewhere.statements(), 15)
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is given as it is when it is not settled within 30 s", () =>
    Effect.gen(function* () {
      const [on, elsewhere] = [yield* replica("31 seconds"), yield* replica()]
      const { plan_id } = yield* on.start
      yield* pass("1 second")
      const cancelling = yield* elsewhere.cancel(plan_id)
      yield* pass("29900 millis")
      assert.isUndefined(cancelling.pollUnsafe())
      yield* pass("100 millis", "50 millis")
      assert.strictEqual((yield* Fiber.join(cancelling)).state, "running")
      yield* pass("1 second")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )
})

describe("the older plans of a session", () => {
  const ask = (question: string, on_busy: string) =>
    post({ question, session_id: "s", preferences: { on_busy, on_disconnect: "continue" } })
  const reasons = (ids: ReadonlyArray<PlanId>) =>
    Effect.flatMap(Plans, (plans) =>
      Effect.forEach(ids, (id) => Effect.map(plans.get(anonymous, id), ({ error }) => error?.reason))
    )
  const config = { maxPlans: 1_000, maxQueue: 1_000 }
  const script = () => [say("half"), stall]

  it.effect("are superseded, however many settled ones are newer", () =>
    Effect.gen(function* () {
      const older = yield* ask("old", "queue")
      yield* pass("1 second")
      const given = { owner: anonymous, external_session_id: ExternalSessionId.make("s") }
      for (let made = 0; made < 200; made++) yield* Effect.flatMap(Given.create(given), (plan) => Given.settle(plan))
      yield* ask("new", "interrupt")
      yield* pass("1 second")
      assert.deepStrictEqual(yield* reasons([older.plan_id]), ["superseded"])
    }).pipe(Effect.provide(layer({ script, config })), Effect.scoped)
  )

  it.effect("are superseded, however many they are, and newer ones are not", () =>
    Effect.gen(function* () {
      const ids = new Array<PlanId>()
      for (let asked = 0; asked < 250; asked++) ids.push((yield* ask("old", "queue")).plan_id)
      const newer = yield* Effect.forkChild(ask("new", "interrupt"))
      yield* pass("50 millis", "10 millis")
      const newest = yield* ask("newest", "queue")
      yield* pass("1 second")
      assert.isTrue((yield* reasons(ids)).every((reason) => reason === "superseded"))
      const { plan_id } = yield* Fiber.join(newer)
      assert.deepStrictEqual(yield* reasons([plan_id, newest.plan_id]), [undefined, undefined])
    }).pipe(
      Effect.provide(
        layer({
          script,
          config,
          disturb: ({ list }) => ({ list: (...given) => Effect.delay(list(...given), "100 millis") })
        })
      ),
      Effect.scoped
    )
  )

  it.effect("are all aborted by a revert", () =>
    Effect.gen(function* () {
      const sessions = yield* Sessions
      const ids = new Array<PlanId>()
      for (let asked = 0; asked < 250; asked++) ids.push((yield* ask("old", "queue")).plan_id)
      yield* pass("1 second")
      const { session_id } = yield* (yield* SessionStore).find(anonymous, "s")
      const { items } = yield* (yield* SessionStore).messages(session_id, { limit: 1 })
      const { message_id } = yield* Effect.fromNullishOr(items[0])
      const reverting = yield* Effect.forkChild(sessions.revert(anonymous, "s", message_id))
      yield* pass("1 second")
      assert.isDefined(reverting.pollUnsafe())
      assert.strictEqual((yield* Fiber.join(reverting)).message_count, 1)
      assert.isTrue((yield* reasons(ids)).every((reason) => reason === "cancelled"))
    }).pipe(Effect.provide(layer({ script, config })), Effect.scoped)
  )
})
