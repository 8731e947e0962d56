import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { PlanId } from "@bowline/domain/plan/Plan"
import { MessageId } from "@bowline/domain/session/Message"
import { SessionId } from "@bowline/domain/session/Session"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { type Committed, PlanStore } from "../../src/store/PlanStore.ts"
import { GroupCommit } from "../../src/stream/GroupCommit.ts"
import { Journal } from "../../src/stream/Journal.ts"
import * as Linger from "../../src/stream/Linger.ts"
import { LivePlan } from "../../src/stream/LivePlan.ts"

const session_id = SessionId.make("session_00000000-0000-0000-0000-000000000000")
const message_id = MessageId.make("msg_00000000-0000-0000-0000-000000000001")
const at = "2026-01-02T03:04:05.678Z"

/** Batches as they were written: when, and how many pieces each row has. */
interface Batch {
  readonly at: number
  readonly rows: ReadonlyArray<number>
}

/** The writer on a store that takes 2 ms for a batch, and so many plans, whose first pieces are stored already. */
const streaming = (count: number, isDurable = true) => {
  const batches: Array<Batch> = []
  const lags: Array<number> = []
  const stored = new Map<PlanId, number>()
  const store = Layer.mock(PlanStore, {
    isDurable,
    commit: (commits) =>
      Effect.gen(function* () {
        batches.push({
          at: yield* Clock.currentTimeMillis,
          rows: commits.flatMap(({ events }) => events.map((row) => row.count))
        })
        if (isDurable) yield* Effect.sleep(2)
        for (const { events, plan_id } of commits) {
          stored.set(plan_id, (stored.get(plan_id) ?? 0) + events.reduce((sum, row) => sum + row.count, 0))
        }
        return new Map<PlanId, Committed>()
      })
  })
  const make = Effect.gen(function* () {
    const writer = yield* GroupCommit
    const scope = yield* Effect.scope
    const clock = yield* Clock.Clock
    const plans = Array.from({ length: count }, (_, place) => {
      const plan_id = PlanId.make(`plan_00000000-0000-0000-0000-${String(place).padStart(12, "0")}`)
      const live = new LivePlan(scope, () => {})
      const said: Array<number> = []
      const publish = live.publish.bind(live)
      live.publish = (frames) => {
        // What a reader gets is stored.
        assert.isAtMost(frames.at(-1)?.seq ?? 0, stored.get(plan_id) ?? 0)
        for (const _ of frames) lags.push(clock.currentTimeMillisUnsafe() - (said.shift() ?? 0))
        publish(frames)
      }
      const journal = new Journal({
        plan: { plan_id, session_id },
        guard: { _tag: "Held", fence: 1 },
        head: { seq: 0, at },
        gist: undefined,
        live,
        notify: writer.notify,
        onStopped: () => assert.fail("The plan has stopped"),
        seen: 0,
        onBehind: () => undefined
      })
      const emit = (event: PlanEvent) => {
        said.push(clock.currentTimeMillisUnsafe())
        journal.emit(event)
      }
      const say = (delta: string) => emit({ event: "text.delta", data: { step: 1, attempt: 1, delta } })
      return { journal, live, emit, say }
    })
    for (const { say } of plans) say("first")
    yield* TestClock.adjust("50 millis")
    batches.length = 0
    lags.length = 0
    return plans
  })
  return { batches, lags, make, layer: GroupCommit.layer.pipe(Layer.provide(store)) }
}

/** Each of the plans says 50 pieces a second for half a second, beginning at an instant of its own. */
const speak = Effect.fnUntraced(function* (plans: ReadonlyArray<{ readonly say: (delta: string) => void }>) {
  for (let ms = 0; ms < 600; ms++) {
    if (ms < 500) {
      for (const [place, { say }] of plans.entries()) if ((ms + place * 7) % 20 === 0) say("piece ")
    }
    yield* TestClock.adjust(1)
  }
})

const figures = ({ batches, lags }: Pick<ReturnType<typeof streaming>, "batches" | "lags">) => ({
  batches: batches.length,
  rows: batches.reduce((sum, { rows }) => sum + rows.length, 0) / lags.length,
  lag: Math.max(...lags)
})

describe("Linger", () => {
  it.effect("writes at once what a plan says that streams alone", () => {
    const { batches, lags, layer, make } = streaming(1)
    return Effect.gen(function* () {
      yield* speak(yield* make)
      assert.deepStrictEqual(figures({ batches, lags }), { batches: 25, rows: 1, lag: 2 })
    }).pipe(Effect.provide(layer))
  })

  it.effect.each([
    { streams: 2, batches: 50, rows: 1, lag: 5 },
    { streams: 20, batches: 55, rows: 1, lag: 17 },
    { streams: 100, batches: 55, rows: 0.55, lag: 34 },
    { streams: 300, batches: 60, rows: 0.28, lag: 76 }
  ])("writes few rows, in 100 batches a second at most, while $streams plans stream", ({ streams, ...most }) => {
    const { batches, lags, layer, make } = streaming(streams)
    return Effect.gen(function* () {
      yield* speak(yield* make)
      const found = figures({ batches, lags })
      assert.lengthOf(lags, streams * 25)
      assert.isAtMost(found.batches, most.batches)
      assert.isAtMost(found.rows, most.rows)
      assert.isAtMost(found.lag, most.lag)
    }).pipe(Effect.provide(layer))
  })

  it.effect("waits for nothing in memory while 100 plans stream, and shares writes while 300 do", () => {
    const [some, many] = [streaming(100, false), streaming(300, false)]
    const lagOf = ({ lags, layer, make }: typeof some) =>
      Effect.gen(function* () {
        yield* speak(yield* make)
        return Math.max(...lags)
      }).pipe(Effect.provide(layer))
    return Effect.gen(function* () {
      assert.strictEqual(yield* lagOf(some), 0)
      assert.isAtMost(yield* lagOf(many), 43)
      assert.isAtMost(figures(many).rows, 0.4)
    })
  })

  it.effect("never lets wait what is not the next piece of a text", () => {
    const { batches, layer, make } = streaming(100)
    return Effect.gen(function* () {
      const plans = yield* make
      yield* speak(plans)
      const [one = assert.fail(), ...others] = plans
      const isWrittenNow = Effect.fnUntraced(function* (act: () => void) {
        // All others linger.
        for (const { say } of others) say("piece ")
        batches.length = 0
        act()
        yield* TestClock.adjust(0)
        const [rows] = batches.map((batch) => batch.rows)
        yield* TestClock.adjust("100 millis")
        return rows !== undefined && rows.length < 5
      })
      const retract: PlanEvent = { event: "text.retract", data: { step: 1, attempt: 1 } }
      const think: PlanEvent = { event: "reasoning.delta", data: { step: 1, attempt: 2, delta: "Hm" } }
      const message = { message_id, role: "assistant" as const, parts: [] }
      assert.isFalse(yield* isWrittenNow(() => one.say("piece ")), "a piece")
      assert.isTrue(yield* isWrittenNow(() => one.emit(retract)), "an event")
      assert.isTrue(yield* isWrittenNow(() => one.emit(think)), "the first piece of a thought")
      assert.isTrue(yield* isWrittenNow(() => one.say("piece ")), "the first piece of a text")
      assert.isTrue(
        yield* isWrittenNow(() => one.journal.append([{ _tag: "MessageAppended", message, at }], [])),
        "a fact"
      )
      assert.isTrue(
        yield* isWrittenNow(() => {
          one.journal.defer([{ _tag: "MessageAppended", message, at }], [])
          one.say("piece ")
        }),
        "a piece behind a fact"
      )
      assert.isTrue(yield* isWrittenNow(() => one.journal.propose([], [retract], () => undefined)), "the end")
      one.say("piece ")
      const flushed = yield* Effect.forkChild(one.journal.flush, { startImmediately: true })
      yield* TestClock.adjust(2)
      assert.isDefined(flushed.pollUnsafe(), "what somebody waits for")
    }).pipe(Effect.provide(layer))
  })

  it("counts plans that stream at once, and forgets those that do not any more", () => {
    const streams = new Linger.Streams()
    for (const plan of ["a", "b", "a", "c"]) streams.add(plan, 0)
    assert.strictEqual(streams.count(0), 3)
    streams.add("a", 260)
    assert.strictEqual(streams.count(300), 3)
    streams.add("a", 520)
    assert.strictEqual(streams.count(520), 1)
    assert.strictEqual(streams.count(2_000), 0)
  })
})
