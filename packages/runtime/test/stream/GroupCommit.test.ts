import { PlanId } from "@bowline/domain/plan/Plan"
import { MessageId } from "@bowline/domain/session/Message"
import { SessionId } from "@bowline/domain/session/Session"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { Rejected, StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { pass } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber, Layer, Scheduler, Stream } from "effect"
import { TestClock } from "effect/testing"
import { type Committed, type PlanCommit, PlanStore } from "../../src/store/PlanStore.ts"
import { GroupCommit } from "../../src/stream/GroupCommit.ts"
import { Journal, type Stopped } from "../../src/stream/Journal.ts"
import { LivePlan } from "../../src/stream/LivePlan.ts"
import * as Interrupted from "../process/Interrupted.ts"
import { apart, measured } from "../telemetry/Measured.ts"

const planId = (n: number) => PlanId.make(`plan_00000000-0000-0000-0000-00000000000${n}`)
const task_id = TaskId.make("00000000-0000-4000-8000-000000000001")
const message_id = MessageId.make("msg_00000000-0000-0000-0000-000000000001")
const session_id = SessionId.make("session_00000000-0000-0000-0000-000000000000")

/** The time of what is stored already. */
const storedAt = "2026-01-02T03:04:05.678Z"

type Commit = PlanStore["Service"]["commit"]

/** The writer on a store whose commits are scripted, and two plans that write. */
const setUp = (commit: Commit) => {
  const batches: Array<ReadonlyArray<PlanCommit>> = []
  const store = Layer.mock(PlanStore, {
    isDurable: false,
    commit: (commits) => {
      batches.push(commits)
      return Effect.suspend(() => commit(commits))
    }
  })
  const make = Effect.gen(function* () {
    const writer = yield* GroupCommit
    const scope = yield* Effect.scope
    const plan = (n: number, fence = 1) => {
      const live = new LivePlan(scope, () => {})
      const stopped = Deferred.makeUnsafe<Stopped>()
      const journal = new Journal({
        plan: { plan_id: planId(n), session_id },
        guard: { _tag: "Held", fence },
        head: { seq: 0, at: storedAt },
        gist: undefined,
        live,
        notify: writer.notify,
        onStopped: (why) => Deferred.doneUnsafe(stopped, Effect.succeed(why)),
        seen: 0,
        onBehind: () => undefined
      })
      const say = (delta: string) => journal.emit({ event: "text.delta", data: { step: 1, attempt: 1, delta } })
      return { live, journal, say, stopped: Deferred.await(stopped) }
    }
    return { one: plan(1), two: plan(2), again: plan(1, 2) }
  })
  return { batches, make, layer: GroupCommit.layer.pipe(Layer.provide(store)) }
}

/** Counts the steps of the fibers that it runs. */
class CountingScheduler extends Scheduler.MixedScheduler {
  steps = 0
  override shouldYield(fiber: Fiber.Fiber<unknown, unknown>): boolean {
    this.steps++
    return super.shouldYield(fiber)
  }
}

const away = new StorageError({ reason: new Unavailable({ cause: "down" }) })
const poison = new StorageError({ reason: new Rejected({ cause: "no such column" }) })
const accept = Effect.succeed(new Map<PlanId, Committed>())

const producing: Record<string, (text: string) => Parameters<Journal["append"]>> = {
  "a large piece of text": (delta) => [[], [{ event: "text.delta", data: { step: 1, attempt: 1, delta } }]],
  "the input of a call, however it is nested": (text) => {
    const input = { rows: Array.from({ length: text.length / 300 }, () => ({ cells: [text.slice(0, 300), 1, true] })) }
    const call = { task_id, tool: "search", kind: "local", agent: null, skill: null, agent_did: null } as const
    return [[], [{ event: "task.started", data: { ...call, agent_did_source: null, input } }]]
  },
  "a message without an event": (text) => {
    const message = { message_id, role: "assistant" as const, parts: [{ type: "text" as const, text }] }
    return [[{ _tag: "MessageAppended", message, at: storedAt }], []]
  }
}

describe("GroupCommit", () => {
  it.effect("writes in one batch what came from all plans while the last one was being written", () => {
    const first = Deferred.makeUnsafe<void>()
    const { batches, make, layer } = setUp(() =>
      batches.length === 1 ? Effect.andThen(Deferred.await(first), accept) : accept
    )
    return Effect.gen(function* () {
      const { one, two } = yield* make
      one.say("a")
      yield* TestClock.adjust(0)
      one.say("b")
      two.say("c")
      one.say("d")
      yield* TestClock.adjust("1 second")
      assert.strictEqual(one.live.head, 0)
      yield* Deferred.succeed(first, undefined)
      yield* Effect.all([one.journal.flush, two.journal.flush])
      assert.deepStrictEqual(
        batches.map((commits) => commits.map(({ events }) => events.map(({ seq, count }) => [seq, count]))),
        [[[[1, 1]]], [[[2, 2]], [[1, 1]]]]
      )
      assert.deepStrictEqual([one.live.head, two.live.head], [3, 1])
    }).pipe(Effect.provide(layer))
  })

  it.effect.each(Object.entries(producing))(
    "has a producer wait that is far ahead of the store with %s",
    ([, produce]) => {
      const { make, layer } = setUp(() => Effect.never)
      return Effect.gen(function* () {
        const { one } = yield* make
        // It waits for the store, and what comes next waits behind it.
        one.say("a")
        yield* TestClock.adjust(0)
        one.journal.append(...produce("x".repeat(1_000)))
        yield* one.journal.keepUp
        one.journal.append(...produce("x".repeat(300_000)))
        const waiting = yield* Effect.forkChild(one.journal.keepUp, { startImmediately: true })
        assert.isUndefined(waiting.pollUnsafe())
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("leaves no alarm behind, wherever who waits for the end of a plan is interrupted", () => {
    const { make, layer } = setUp(() => Effect.never)
    return Effect.gen(function* () {
      const { one } = yield* make
      const clock = yield* Clock.Clock
      let sleeping = 0
      const count = (difference: number) => Effect.sync(() => void (sleeping += difference))
      const sleep: Clock.Clock["sleep"] = (duration) =>
        Effect.acquireUseRelease(
          count(1),
          () => clock.sleep(duration),
          () => count(-1)
        )
      const counting = new Proxy(clock, {
        get: (target, name): unknown => (name === "sleep" ? sleep : Reflect.get(target, name))
      })
      one.say("a")
      const settled = one.journal.settled(() => false, 30_000)
      const waiting = yield* Effect.forkChild(Effect.provideService(settled, Clock.Clock, counting))
      yield* TestClock.adjust(0)
      assert.strictEqual(sleeping, 1)
      yield* Fiber.interrupt(waiting)
      yield* Interrupted.atEachStep(Effect.provideService(settled, Clock.Clock, counting))
      yield* TestClock.adjust(0)
      assert.strictEqual(sleeping, 0)
    }).pipe(Effect.provide(layer))
  })

  it.effect("gives all that it writes at once one time, never an earlier one than what was stored before", () => {
    const { batches, make, layer } = setUp(() => accept)
    return Effect.gen(function* () {
      const { one } = yield* make
      yield* TestClock.setTime(Date.parse(storedAt) - 2)
      const { frames } = yield* one.live.attach(0)
      one.say("a")
      one.journal.emit({ event: "step", data: { step: 2, attempt: 1 } })
      yield* one.journal.flush
      yield* TestClock.adjust("3 millis")
      one.say("b")
      yield* one.journal.flush
      const times = [storedAt, storedAt, "2026-01-02T03:04:05.679Z"]
      assert.deepStrictEqual(
        batches.flatMap((commits) => commits.flatMap(({ events }) => events.map(({ at }) => at))),
        times
      )
      one.live.close("done")
      const read = yield* Stream.runCollect(frames)
      assert.deepStrictEqual(
        read.map((frame) => typeof frame === "object" && frame.at),
        times
      )
    }).pipe(Effect.provide(layer))
  })

  it.effect("sends nothing while the database is away, and everything when it is back", () => {
    let isAway = true
    const { make, layer } = setUp(() => (isAway ? Effect.fail(away) : accept))
    return Effect.gen(function* () {
      const { one } = yield* make
      one.say("a")
      const flushed = yield* Effect.forkChild(one.journal.flush)
      yield* pass("20 seconds")
      one.say("b")
      assert.strictEqual(one.live.head, 0)
      isAway = false
      yield* pass("2 seconds")
      yield* Fiber.join(flushed)
      yield* one.journal.flush
      assert.strictEqual(one.live.head, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("measures how long its oldest event waits, and how long each batch has taken", () => {
    const answers = [Deferred.makeUnsafe<void>(), Deferred.makeUnsafe<void>()] as const
    const { batches, make, layer } = setUp(() =>
      Effect.andThen(Deferred.await(answers[batches.length === 1 ? 0 : 1]), accept)
    )
    const waiting = measured("bowline.events.waiting")
    return Effect.gen(function* () {
      const { one, two } = yield* make
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(yield* waiting, 0)
      one.say("a")
      yield* TestClock.adjust("5 seconds")
      // Somebody sets the clock meanwhile.
      yield* TestClock.setTime(0)
      two.say("b")
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(yield* waiting, 15)
      yield* Deferred.succeed(answers[0], undefined)
      yield* TestClock.adjust(0)
      assert.deepStrictEqual([yield* waiting, yield* measured("bowline.events.lag")], [10, 1])
      yield* Deferred.succeed(answers[1], undefined)
      yield* TestClock.adjust(0)
      assert.deepStrictEqual([yield* waiting, yield* measured("bowline.events.lag")], [0, 2])
    }).pipe(Effect.provide(layer), apart)
  })

  it.effect("lets a plan wait 30 s for the database, and no longer", () => {
    const { make, layer } = setUp(() => Effect.fail(away))
    return Effect.gen(function* () {
      const { one } = yield* make
      one.say("a")
      const flushed = yield* Effect.forkChild(Effect.flip(one.journal.flush))
      yield* TestClock.adjust("29 seconds")
      assert.isUndefined(flushed.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(flushed)).reason._tag, "unavailable")
    }).pipe(Effect.provide(layer))
  })

  it.effect("waits for no database where a plan has nothing to write", () => {
    const { batches, make, layer } = setUp(() => accept)
    return Effect.gen(function* () {
      const { one } = yield* make
      one.journal.append([], [])
      yield* one.journal.flush
      assert.deepStrictEqual(batches, [])
    }).pipe(Effect.provide(layer))
  })

  it.effect("leaves asleep who waits for the second of two batches when the first one is stored", () => {
    const first = Deferred.makeUnsafe<void>()
    const second = Deferred.makeUnsafe<void>()
    const { batches, make, layer } = setUp(() =>
      Effect.andThen(Deferred.await(batches.length === 1 ? first : second), accept)
    )
    return Effect.gen(function* () {
      const { one } = yield* make
      one.say("a")
      yield* TestClock.adjust("1 millis")
      one.say("b")
      const scheduler = new CountingScheduler()
      const waiting = yield* Effect.forkChild(
        Effect.provideService(one.journal.written, Scheduler.Scheduler, scheduler),
        { startImmediately: true }
      )
      yield* Deferred.succeed(first, undefined)
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(one.live.head, 1)
      assert.isBelow(scheduler.steps, 20)
      yield* Deferred.succeed(second, undefined)
      yield* Fiber.join(waiting)
      assert.strictEqual(one.live.head, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("stops the plan whose rows the database refuses, and writes those of the others", () => {
    const { make, layer } = setUp((commits) =>
      commits.some(({ plan_id }) => plan_id === planId(1)) ? Effect.fail(poison) : accept
    )
    return Effect.gen(function* () {
      const { one, two } = yield* make
      one.say("bad")
      two.say("good")
      yield* two.journal.flush
      const stopped = yield* one.stopped
      assert.strictEqual(stopped._tag, "StorageError")
      assert.deepStrictEqual([one.live.head, two.live.head], [0, 1])
    }).pipe(Effect.provide(layer))
  })

  it.effect("writes nothing more of a plan whose guard does not hold", () => {
    const { batches, make, layer } = setUp(() => Effect.succeed(new Map([[planId(1), "refused" as const]])))
    return Effect.gen(function* () {
      const { one } = yield* make
      const { frames } = yield* one.live.attach(0)
      one.say("a")
      assert.strictEqual((yield* one.stopped)._tag, "LeaseLost")
      one.say("b")
      yield* TestClock.adjust("1 second")
      assert.strictEqual(batches.length, 1)
      one.live.close("reconnect")
      assert.deepStrictEqual(yield* Stream.runCollect(frames), ["reconnect"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("writes on for a plan that its own process has taken over again, though its old writer is refused", () => {
    const { layer, make } = setUp((commits) =>
      Effect.succeed(
        new Map(
          commits.flatMap(({ guard, plan_id }) =>
            guard._tag === "Held" && guard.fence === 1 ? [[plan_id, "refused" as const]] : []
          )
        )
      )
    )
    return Effect.gen(function* () {
      const { again, one } = yield* make
      const { frames } = yield* again.live.attach(0)
      one.say("old")
      again.say("new")
      assert.strictEqual((yield* one.stopped)._tag, "LeaseLost")
      assert.lengthOf(yield* frames.pipe(Stream.take(1), Stream.runCollect), 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("ends every plan's part of a batch, though one of them breaks when it is told", () => {
    const { layer } = setUp(() => accept)
    const ends: Array<string> = []
    const source = (n: number, stored: () => void) => {
      const parts = [
        {
          commit: {
            plan_id: planId(n),
            session_id,
            guard: { _tag: "Held", fence: 1 } as const,
            changes: [],
            events: []
          },
          stored,
          unread: () => undefined,
          refused: () => void ends.push(`${n} refused`),
          failed: ({ reason }: StorageError) => void ends.push(`${n} ${reason._tag}: ${String(reason.cause)}`)
        }
      ]
      return { take: () => parts.pop() }
    }
    return Effect.gen(function* () {
      const writer = yield* GroupCommit
      writer.notify(
        source(1, () => {
          throw new Error("broken")
        })
      )
      writer.notify(source(2, () => void ends.push("2 stored")))
      yield* TestClock.adjust(0)
      assert.deepStrictEqual(ends, ["1 refused", "2 stored"])
    }).pipe(Effect.provide(layer))
  })
})
