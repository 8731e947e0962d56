import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Exit, Fiber, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import type { PlanFrame } from "../../src/store/EventRow.ts"
import { LivePlan } from "../../src/stream/LivePlan.ts"
import { apart, measured } from "../telemetry/Measured.ts"

const frame = (seq: number, size = 10): PlanFrame => ({
  seq,
  at: "1970-01-01T00:00:00.000Z",
  event: "text.delta",
  payload: "x".repeat(size)
})
const frames = (from: number, to: number, size?: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => frame(from + index, size))

const makeWith = Effect.fnUntraced(function* (...grace: [] | [Duration.Duration]) {
  let abandoned = 0
  const live = new LivePlan(yield* Effect.scope, () => void abandoned++, ...grace)
  return { live, abandoned: () => abandoned }
})

const make = makeWith()

/** Somebody who reads, and what ends it: a reader here, or one on another replica. */
const readers = {
  reader: (live: LivePlan) => Effect.asVoid(live.attach(0)),
  "reader on another replica": (live: LivePlan) => live.watch(() => undefined)
}

const comes = Effect.fnUntraced(function* (enter: Effect.Effect<void, never, Scope.Scope>) {
  const connection = yield* Scope.make()
  yield* Scope.provide(enter, connection)
  return { leaves: Scope.close(connection, Exit.void) }
})

const seqs = (items: ReadonlyArray<PlanFrame | string>) =>
  items.map((item) => (typeof item === "string" ? item : item.seq))

describe("LivePlan", () => {
  it.effect("cuts off a reader that is 1,024 frames behind, with all that it was given, and no other", () =>
    Effect.gen(function* () {
      const { live } = yield* make
      const slow = yield* live.attach(0)
      const quick = yield* live.attach(0)
      const reading = yield* Effect.forkChild(Stream.runCollect(quick.frames), { startImmediately: true })
      for (let seq = 1; seq <= 1_100; seq++) {
        live.publish([frame(seq)])
        yield* Effect.yieldNow
      }
      live.close("done")
      assert.deepStrictEqual(seqs(yield* Stream.runCollect(slow.frames)), [
        ...Array.from({ length: 1_024 }, (_, index) => index + 1),
        "reconnect"
      ])
      assert.strictEqual((yield* Fiber.join(reading)).length, 1_100)
    })
  )

  it.effect(
    "hands frames to a connection whose reader waits, and through the stream what it does not take at once",
    () =>
      Effect.gen(function* () {
        const { live } = yield* make
        live.publish(frames(1, 1))
        const { frames: read, shortCut } = yield* live.attach(0)
        const got: Array<string> = []
        let takesMore = true
        shortCut((written) => {
          got.push(`written ${seqs(written).join()}`)
          return takesMore
        })
        live.publish(frames(2, 2))
        const pulled = Stream.runForEachArray(read, (items) =>
          Effect.sync(() => void got.push(`pulled ${seqs(items).join()}`))
        )
        const reading = yield* Effect.forkChild(pulled, { startImmediately: true })
        live.publish(frames(3, 4))
        takesMore = false
        live.publish(frames(5, 5))
        live.publish(frames(6, 6))
        live.publish(frames(7, 7))
        yield* Effect.yieldNow
        takesMore = true
        live.publish(frames(8, 8))
        yield* TestClock.adjust("10 seconds")
        live.publish(frames(9, 9))
        live.close("reconnect")
        live.publish(frames(10, 10))
        yield* Fiber.join(reading)
        assert.deepStrictEqual(got, [
          "pulled 1,2",
          "written 3,4",
          "written 5",
          "pulled 6,7",
          "written 8",
          "pulled ping",
          "written 9",
          "pulled reconnect"
        ])
      })
  )

  it.effect("gives a connection that waits nothing that its reader has seen elsewhere", () =>
    Effect.gen(function* () {
      const { live } = yield* make
      const { frames: read, shortCut } = yield* live.attach(2)
      const got: Array<unknown> = []
      shortCut((written) => got.push(...seqs(written)) > 0)
      yield* Effect.forkChild(Stream.runDrain(read), { startImmediately: true })
      live.publish(frames(1, 2))
      live.publish(frames(3, 4))
      assert.deepStrictEqual(got, [3, 4])
    })
  )

  it.effect("cuts off a reader that is more than 1 MiB behind, and always takes one frame", () =>
    Effect.gen(function* () {
      const { live } = yield* make
      const { frames } = yield* live.attach(0)
      live.publish([frame(1, 3_000_000)])
      live.publish([frame(2)])
      assert.deepStrictEqual(seqs(yield* Stream.runCollect(frames)), [1, "reconnect"])
    })
  )

  it.effect(
    "gives a reader what is in memory behind its cursor and then what comes, and nothing that it has seen elsewhere",
    () =>
      Effect.gen(function* () {
        const { live } = yield* make
        live.publish(frames(1, 3))
        const late = yield* live.attach(1)
        const ahead = yield* live.attach(4)
        assert.deepStrictEqual([late.head, ahead.head], [1, 4])
        live.publish(frames(4, 5))
        live.close("done")
        assert.deepStrictEqual(seqs(yield* Stream.runCollect(late.frames)), [2, 3, 4, 5])
        assert.deepStrictEqual(seqs(yield* Stream.runCollect(ahead.frames)), [5])
      })
  )

  it.effect("cuts off nobody before the end because of one large frame", () =>
    Effect.gen(function* () {
      const { live } = yield* make
      const { frames } = yield* live.attach(0)
      live.publish([frame(1), frame(2, 3_000_000), { ...frame(3), event: "done", payload: "{}" }])
      live.close("done")
      assert.deepStrictEqual(seqs(yield* Stream.runCollect(frames)), [1, 2, 3])
    })
  )

  it.effect("gives a reader that it cut off 10 s to read what it was given", () =>
    Effect.gen(function* () {
      const { live } = yield* make
      let isClosed = false
      const { connect } = yield* live.attach(0)
      connect(() => (isClosed = true))
      live.publish(frames(1, 1_024))
      yield* TestClock.adjust("1 hour")
      live.publish([frame(1_025)])
      yield* TestClock.adjust("9999 millis")
      assert.isFalse(isClosed)
      yield* TestClock.adjust("1 millis")
      assert.isTrue(isClosed)
    })
  )

  it.effect("counts the readers that it has cut off, and no other", () =>
    Effect.gen(function* () {
      const { live } = yield* make
      const slow = yield* comes(readers.reader(live))
      live.publish(frames(1, 1_100))
      const late = yield* comes(readers.reader(live))
      yield* late.leaves
      yield* slow.leaves
      assert.strictEqual(yield* measured("bowline.readers.cut_off"), 1)
    }).pipe(apart)
  )

  it.effect("counts a reader that it cut off as connected for 60 s", () =>
    Effect.gen(function* () {
      const { live, abandoned } = yield* make
      const connection = yield* Scope.make()
      yield* live.attach(0).pipe(Scope.provide(connection))
      live.publish(frames(1, 1_025))
      yield* Scope.close(connection, Exit.void)
      yield* TestClock.adjust("59 seconds")
      assert.strictEqual(abandoned(), 0)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(abandoned(), 1)
    })
  )

  it.effect.each([
    [Duration.seconds(5), 60_000],
    [Duration.minutes(2), 120_000]
  ] as const)(
    "counts a reader that it cut off as connected for 60 s, or for the grace of %s if that is longer",
    ([grace, until]) =>
      Effect.gen(function* () {
        const { live, abandoned } = yield* makeWith(grace)
        const { leaves } = yield* comes(Effect.asVoid(live.attach(0)))
        live.publish(frames(1, 1_025))
        yield* leaves
        yield* TestClock.adjust(until - 1)
        assert.strictEqual(abandoned(), 0)
        yield* TestClock.adjust(1)
        assert.strictEqual(abandoned(), 1)
      })
  )

  describe.each(Object.entries(readers))("when a %s disconnects", (_, enter) => {
    it.effect("is abandoned at once without a grace", () =>
      Effect.gen(function* () {
        const { live, abandoned } = yield* make
        yield* (yield* comes(enter(live))).leaves
        assert.strictEqual(abandoned(), 1)
      })
    )

    it.effect("is abandoned after the grace, and not if the reader comes back within it", () =>
      Effect.gen(function* () {
        const { live, abandoned } = yield* makeWith(Duration.seconds(5))
        yield* (yield* comes(enter(live))).leaves
        yield* TestClock.adjust(4_999)
        const { leaves } = yield* comes(enter(live))
        yield* TestClock.adjust("1 hour")
        assert.strictEqual(abandoned(), 0)
        yield* leaves
        yield* TestClock.adjust(4_999)
        assert.strictEqual(abandoned(), 0)
        yield* TestClock.adjust(1)
        assert.strictEqual(abandoned(), 1)
      })
    )

    it.effect("is not abandoned while it waits for a client, nor until that one has come back and left", () =>
      Effect.gen(function* () {
        const { live, abandoned } = yield* make
        const before = yield* comes(enter(live))
        const wait = yield* Deferred.make<void>()
        const waiting = yield* Effect.forkChild(live.holdWhile(Deferred.await(wait)), { startImmediately: true })
        yield* before.leaves
        // Somebody else looks in on it.
        yield* (yield* comes(enter(live))).leaves
        assert.strictEqual(abandoned(), 0)
        yield* Deferred.succeed(wait, undefined)
        yield* Fiber.join(waiting)
        assert.strictEqual(abandoned(), 0)
        const back = yield* comes(enter(live))
        assert.strictEqual(abandoned(), 0)
        yield* back.leaves
        assert.strictEqual(abandoned(), 1)
      })
    )

    it.effect(
      "is abandoned when the client leaves that came back before the wait was over, but not with one from before",
      () =>
        Effect.gen(function* () {
          const { live, abandoned } = yield* make
          const before = yield* comes(enter(live))
          const wait = yield* Deferred.make<void>()
          const waiting = yield* Effect.forkChild(live.holdWhile(Deferred.await(wait)), { startImmediately: true })
          yield* Deferred.succeed(wait, undefined)
          yield* Fiber.join(waiting)
          yield* before.leaves
          assert.strictEqual(abandoned(), 0)
          const next = yield* Deferred.make<void>()
          const again = yield* Effect.forkChild(live.holdWhile(Deferred.await(next)), { startImmediately: true })
          const back = yield* comes(enter(live))
          yield* Deferred.succeed(next, undefined)
          yield* Fiber.join(again)
          assert.strictEqual(abandoned(), 0)
          yield* back.leaves
          assert.strictEqual(abandoned(), 1)
        })
    )

    it.effect("gives each of two that disconnect its own grace", () =>
      Effect.gen(function* () {
        const { live, abandoned } = yield* makeWith(Duration.seconds(5))
        const [one, other] = [yield* comes(enter(live)), yield* comes(enter(live))]
        yield* one.leaves
        yield* TestClock.adjust("3 seconds")
        yield* other.leaves
        yield* TestClock.adjust(4_999)
        assert.strictEqual(abandoned(), 0)
        yield* TestClock.adjust(1)
        assert.strictEqual(abandoned(), 1)
        yield* TestClock.adjust("1 hour")
        assert.strictEqual(abandoned(), 1)
      })
    )

    it.effect("is not abandoned when it is over before the grace is", () =>
      Effect.gen(function* () {
        const { live, abandoned } = yield* makeWith(Duration.seconds(5))
        yield* (yield* comes(enter(live))).leaves
        live.close("done")
        yield* TestClock.adjust("1 hour")
        assert.strictEqual(abandoned(), 0)
      })
    )
  })

  it.effect("is abandoned as soon as nobody reads it, whatever its grace, from when it is outdated", () =>
    Effect.gen(function* () {
      const reasons: Array<boolean> = []
      const live = new LivePlan(yield* Effect.scope, (isOutdated) => void reasons.push(isOutdated), Duration.hours(1))
      const [one, other] = [yield* comes(Effect.asVoid(live.attach(0))), yield* comes(live.watch(() => undefined))]
      live.outdate()
      yield* one.leaves
      assert.deepStrictEqual(reasons, [])
      yield* other.leaves
      assert.deepStrictEqual(reasons, [true])
    })
  )

  it.effect("has its grace again as soon as somebody comes who has not been there when it was outdated", () =>
    Effect.gen(function* () {
      const ways = [(live: LivePlan) => Effect.asVoid(live.attach(0)), (live: LivePlan) => live.watch(() => undefined)]
      for (const way of ways) {
        const reasons: Array<boolean> = []
        const live = new LivePlan(yield* Effect.scope, (isOutdated) => void reasons.push(isOutdated), Duration.hours(1))
        const before = yield* comes(Effect.asVoid(live.attach(0)))
        live.outdate()
        const newer = yield* comes(way(live))
        yield* before.leaves
        yield* newer.leaves
        yield* TestClock.adjust("59 minutes")
        assert.deepStrictEqual(reasons, [])
        yield* TestClock.adjust("1 minute")
        assert.deepStrictEqual(reasons, [false])
      }
    })
  )

  it.effect("is abandoned at once when it is outdated while all its readers are away", () =>
    Effect.gen(function* () {
      for (const away of ["never came", "left"]) {
        const reasons: Array<boolean> = []
        const live = new LivePlan(yield* Effect.scope, (isOutdated) => void reasons.push(isOutdated), Duration.hours(1))
        if (away === "left") yield* (yield* comes(Effect.asVoid(live.attach(0)))).leaves
        else yield* Effect.forkScoped(live.awaitReader("1 hour"), { startImmediately: true })
        assert.deepStrictEqual(reasons, [])
        live.outdate()
        assert.deepStrictEqual(reasons, [true], away)
      }
    })
  )

  it.effect("ends with its plan, though a reader has disconnected within the grace", () =>
    Effect.gen(function* () {
      const plan = yield* Scope.make()
      const live = new LivePlan(plan, () => assert.fail("abandoned"), Duration.seconds(5))
      yield* (yield* comes(Effect.asVoid(live.attach(0)))).leaves
      yield* TestClock.adjust("1 second")
      yield* Scope.close(plan, Exit.void)
    })
  )

  it.effect("is abandoned as soon as the connection of its last reader ends, once, unless there is a grace", () =>
    Effect.gen(function* () {
      const { live, abandoned } = yield* make
      const connection = yield* Scope.make()
      const one = yield* Scope.provide(live.attach(0), connection)
      const other = yield* live.attach(0)
      one.connect(() => {})()
      assert.strictEqual(abandoned(), 0)
      yield* Scope.close(connection, Exit.void)
      const disconnect = other.connect(() => {})
      disconnect()
      disconnect()
      assert.strictEqual(abandoned(), 1)

      const patient = yield* makeWith(Duration.seconds(5))
      const reading = yield* patient.live.attach(0)
      reading.connect(() => {})()
      assert.strictEqual(patient.abandoned(), 0)
    })
  )

  it.effect("counts a reader once whose connection ends and whose scope closes: who reads on keeps the plan", () =>
    Effect.gen(function* () {
      const { live, abandoned } = yield* make
      const connection = yield* Scope.make()
      const one = yield* Scope.provide(live.attach(0), connection)
      const other = yield* comes(readers.reader(live))
      one.connect(() => {})()
      yield* Scope.close(connection, Exit.void)
      assert.strictEqual(abandoned(), 0)
      yield* other.leaves
      assert.strictEqual(abandoned(), 1)
    })
  )

  it.effect("is not abandoned by readers who disconnect when the plan is over", () =>
    Effect.gen(function* () {
      const { live, abandoned } = yield* make
      yield* Effect.scoped(
        Effect.andThen(
          live.attach(0),
          Effect.sync(() => live.close("done"))
        )
      )
      assert.strictEqual(abandoned(), 0)
    })
  )

  it.effect("is not abandoned when the last reader leaves it running, nor afterwards", () =>
    Effect.gen(function* () {
      const { abandoned, live } = yield* make
      const leaving = yield* comes(Effect.flatMap(live.attach(0), ({ leaveRunning }) => leaveRunning))
      yield* leaving.leaves
      const later = yield* comes(readers.reader(live))
      yield* later.leaves
      assert.strictEqual(abandoned(), 0)
    })
  )

  it.effect("keeps the last frames, and says when older ones are gone", () =>
    Effect.gen(function* () {
      const { live } = yield* make
      live.publish(frames(1, 600))
      assert.deepStrictEqual(seqs(live.recent(597, 600) ?? []), [598, 599, 600])
      assert.deepStrictEqual(live.recent(600, 600), [])
      assert.isUndefined(live.recent(0, 600))
    })
  )
})
