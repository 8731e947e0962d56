import { anonymous } from "@bowline/domain/caller/CallerName"
import { EntryId } from "@bowline/domain/plan/Outcome"
import { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import { stall, wait } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Deferred, Duration, Effect, Exit, Fiber, Layer, Option, Scope, Stream } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { Sessions } from "../../src/plan/Sessions.ts"
import type { PlanFrame } from "../../src/store/EventRow.ts"
import * as PlanGist from "../../src/store/PlanGist.ts"
import { LeaseStore } from "../../src/store/LeaseStore.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import { LivePlan, type ReaderItem } from "../../src/stream/LivePlan.ts"
import { type Followed, type FollowedPlan, PlanFollower, readFrom } from "../../src/stream/PlanFollower.ts"

/** More than what waits for a reader before it is cut off, said while nobody has time to read. */
const burst = Array.from({ length: 3_000 }, (_, index) => say(`${index} `))

const shown = (items: ReadonlyArray<Followed<PlanFrame>>) =>
  items.map((item) => (typeof item === "string" ? item : item.seq))

const all = (items: ReadonlyArray<Followed<PlanFrame>>, end: string) => [
  ...Array.from({ length: items.length - 1 }, (_, index) => index + 1),
  end
]

/** Reads a plan, and takes nothing behind its first frames until it is told to. */
const readSlowly = Effect.fnUntraced(function* ({ frames }: FollowedPlan) {
  const items: Array<Followed<PlanFrame>> = []
  const goOn = yield* Deferred.make<void>()
  const reading = Stream.runForEachArray(frames, (some) =>
    Effect.andThen(
      Effect.sync(() => void items.push(...some)),
      Deferred.await(goOn)
    )
  )
  return { items, goOn: Deferred.succeed(goOn, undefined), fiber: yield* Effect.forkScoped(reading) }
})

/** One of several replicas on the same stores. */
const replica = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const script = () => [say("one"), wait("5 seconds"), say("two")]
  const built = Layer.build(
    Layer.fresh(TestKit.layerOnStore({ script, config: { shutdownGrace: Duration.seconds(1) } }))
  )
  const context = yield* Scope.provide(built, scope)
  return {
    on: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provideContext(effect, context),
    plans: Context.get(context, Plans),
    follower: Context.get(context, PlanFollower)
  }
})

const live = Effect.map(Effect.scope, (scope) => new LivePlan(scope, () => undefined))

const durable = Layer.effect(
  PlanStore,
  Effect.map(PlanStore, (store) => ({ ...store, isDurable: true }))
).pipe(Layer.provideMerge(MemoryStore.layer))

describe("PlanFollower", () => {
  it.effect("gives a reader that falls behind every frame once", () =>
    Effect.gen(function* () {
      const slow = yield* readSlowly(yield* TestKit.follow({ question: "?" }))
      yield* TestKit.pass("5 seconds")
      assert.isBelow(slow.items.length, 1_000)
      yield* slow.goOn
      yield* Fiber.join(slow.fiber)
      assert.isAbove(slow.items.length, 3_000)
      assert.deepStrictEqual(shown(slow.items), all(slow.items, "Over"))
    }).pipe(Effect.scoped, Effect.provide(TestKit.layer({ script: [burst] })))
  )

  it.effect("ends a plan at once whose reader was behind, came back, and leaves", () =>
    Effect.gen(function* () {
      const connection = yield* Scope.make()
      const plan = yield* Scope.provide(TestKit.follow({ question: "?" }), connection)
      const slow = yield* Scope.provide(readSlowly(plan), connection)
      yield* TestKit.pass("5 seconds")
      yield* slow.goOn
      yield* TestKit.pass("5 seconds")
      assert.isAbove(slow.items.length, 3_000)
      const plans = yield* Plans
      assert.strictEqual((yield* plans.get(anonymous, plan.plan_id)).state, "running")
      yield* Scope.close(connection, Exit.void)
      yield* TestKit.pass("100 millis", "10 millis")
      assert.strictEqual((yield* plans.get(anonymous, plan.plan_id)).error?.reason, "disconnect")
    }).pipe(Effect.provide(TestKit.layer({ script: [[...burst, stall]] })))
  )

  it.effect("closes the connection of a reader that was cut off and takes nothing for a minute", () =>
    Effect.gen(function* () {
      let isClosed = false
      const plan = yield* TestKit.follow({ question: "?" })
      plan.connect(() => void (isClosed = true))
      yield* readSlowly(plan)
      yield* TestKit.pass("50 seconds", "1 second")
      assert.isFalse(isClosed)
      yield* TestKit.pass("30 seconds", "1 second")
      assert.isTrue(isClosed)
    }).pipe(Effect.scoped, Effect.provide(TestKit.layer({ script: [[...burst, stall]] })))
  )

  it.effect("leaves the connection of a slow reader alone that goes on", () =>
    Effect.gen(function* () {
      let isClosed = false
      const plan = yield* TestKit.follow({ question: "?" })
      plan.connect(() => void (isClosed = true))
      const slow = yield* readSlowly(plan)
      yield* TestKit.pass("50 seconds", "1 second")
      yield* slow.goOn
      yield* TestKit.pass("10 minutes", "10 seconds")
      assert.isFalse(isClosed)
    }).pipe(Effect.scoped, Effect.provide(TestKit.layer({ script: [[...burst, stall]] })))
  )

  it.effect("is never silent for more than 10 s, also where its process loses the plan in between", () =>
    Effect.gen(function* () {
      yield* TestKit.pass("1 second")
      const { frames, session_id } = yield* TestKit.follow({ question: "?" })
      let heardAt = yield* Clock.currentTimeMillis
      const silences: Array<number> = []
      const hear = Effect.map(Clock.currentTimeMillis, (now) => {
        silences.push(now - heardAt)
        heardAt = now
      })
      yield* Effect.forkScoped(Stream.runForEachArray(frames, () => hear))
      yield* TestKit.pass("6 seconds")
      // The next renewal, at 10 s, does not find it.
      yield* (yield* LeaseStore).release(session_id, 1)
      yield* TestKit.pass("40 seconds", "1 second")
      yield* hear
      assert.isAtMost(Math.max(...silences), 10_000)
    }).pipe(
      Effect.scoped,
      Effect.provide(TestKit.layer({ script: [[stall]], disturb: () => ({ takeOver: () => Effect.succeed([]) }) }))
    )
  )

  it.effect("says that a plan is gone that is deleted while it is read", () =>
    Effect.gen(function* () {
      const plan = yield* TestKit.follow({ question: "?", session_id: "s" })
      const slow = yield* readSlowly(plan)
      yield* TestKit.pass("5 seconds")
      yield* Effect.forkChild(Effect.flatMap(Sessions, (sessions) => sessions.delete(anonymous, "s")))
      yield* TestKit.pass("5 seconds")
      yield* slow.goOn
      yield* Fiber.join(slow.fiber)
      assert.deepStrictEqual(shown(slow.items), all(slow.items, "Gone"))
    }).pipe(Effect.scoped, Effect.provide(TestKit.layer({ script: [[...burst, stall]] })))
  )

  it.effect(
    "gives a reader of what follows an entry nothing that was before it, also when the plan is handed over first",
    () => {
      const entry = EntryId.make("entry_00000000-0000-4000-8000-000000000001")
      const frameOf = (seq: number, text: string): PlanFrame => ({
        seq,
        at: "2026-01-01T00:00:00.000Z",
        event: "inbox.accepted",
        payload: JSON.stringify({ entry_id: text })
      })
      const readings: ReadonlyArray<ReadonlyArray<ReaderItem>> = [
        [frameOf(1, "other"), "ping", "reconnect"],
        [frameOf(2, entry), frameOf(3, "other")]
      ]
      const asked: Array<number> = []
      const readingOf = (items: ReadonlyArray<ReaderItem>) => ({
        plan_id: PlanId.make("plan_00000000-0000-4000-8000-000000000001"),
        session_id: SessionId.make("session_00000000-0000-4000-8000-000000000001"),
        frames: Stream.fromIterable(items),
        connect: () => () => undefined,
        leaveRunning: Effect.void,
        replaced: Effect.void,
        isHere: () => true
      })
      const parts = {
        isDraining: Effect.succeed(false),
        watch: () => Effect.succeed({ news: Effect.never, isClosed: () => false }),
        read: (_: unknown, __: unknown, after: number) => {
          asked.push(after)
          return Effect.succeed(readingOf(readings[1] ?? []))
        }
      }
      return Effect.gen(function* () {
        const { follow } = yield* PlanFollower
        const items = yield* Stream.runCollect(follow(anonymous, readFrom(readingOf(readings[0] ?? []), entry)).frames)
        assert.deepStrictEqual(shown(items), ["ping", 2, 3, "Over"])
        assert.deepStrictEqual(asked, [1])
      }).pipe(Effect.scoped, Effect.provide(PlanFollower.layerOf(Effect.succeed(parts))))
    }
  )

  it.effect("writes past the frames of each reading, and goes on behind that where one ends", () => {
    const frameOf = (seq: number): PlanFrame => ({
      seq,
      at: "2026-01-01T00:00:00.000Z",
      event: "text.delta",
      payload: "{}"
    })
    return Effect.gen(function* () {
      const lives = [yield* live, yield* live] as const
      const readingOf = (plan: LivePlan, after: number) =>
        Effect.map(plan.attach(after), (reading) => ({
          plan_id: PlanId.make("plan_00000000-0000-4000-8000-000000000001"),
          session_id: SessionId.make("session_00000000-0000-4000-8000-000000000001"),
          ...reading
        }))
      const asked: Array<number> = []
      const parts = PlanFollower.layerOf(
        Effect.succeed({
          isDraining: Effect.succeed(false),
          watch: () => Effect.succeed({ news: Effect.never, isClosed: () => false }),
          read: (_: unknown, __: unknown, after: number) => {
            asked.push(after)
            return readingOf(lives[1], after)
          }
        })
      )
      const { follow } = yield* Effect.provide(PlanFollower, parts)
      const plan = follow(anonymous, yield* readingOf(lives[0], 0))
      const written: Array<number> = []
      plan.shortCut?.((frames) => written.push(...frames.map(({ seq }) => seq)) > 0)
      const reading = yield* Effect.forkChild(Stream.runCollect(plan.frames), { startImmediately: true })
      lives[0].publish([frameOf(1), frameOf(2)])
      lives[0].close("reconnect")
      yield* Effect.repeat(Effect.yieldNow, { times: 50 })
      assert.deepStrictEqual(asked, [2])
      lives[1].publish([frameOf(1), frameOf(2), frameOf(3)])
      lives[1].close("done")
      assert.deepStrictEqual([written, yield* Fiber.join(reading)], [[1, 2, 3], ["Over"]])
    }).pipe(Effect.scoped)
  })

  it.effect("goes on where a plan is handed over to, and says so where the process shuts down", () =>
    Effect.gen(function* () {
      const [here, there] = [yield* replica, yield* replica]
      const preferences = { on_disconnect: "continue" }
      const plan = yield* here.on(TestKit.follow({ question: "?", preferences }))
      const left = yield* Effect.forkChild(Stream.runCollect(plan.frames))
      yield* TestKit.pass("1 second")
      const elsewhere = yield* there.follower.read(anonymous, plan.plan_id, 0)
      const whole = yield* Effect.forkChild(Stream.runCollect(elsewhere.frames))
      yield* Effect.forkChild(here.plans.drain)
      yield* TestKit.pass("20 seconds")
      const [before, after] = [yield* Fiber.join(left), yield* Fiber.join(whole)]
      assert.deepStrictEqual(shown(before), all(before, "Draining"))
      assert.deepStrictEqual(shown(after), all(after, "Over"))
      assert.isAbove(after.length, before.length)
      // What the second process has told on the plan's row begins with what the first one had stored.
      const store = yield* PlanStore
      const told = yield* store.told(anonymous, plan.plan_id)
      const events = yield* PlanGist.complete(store, told.plan, PlanGist.upTo(0))
      assert.deepStrictEqual(PlanGist.decode(told.gist, told.plan.final?.text), Option.some(events))
    }).pipe(Effect.scoped, Effect.provide(durable))
  )
})
