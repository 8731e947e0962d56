import { assert, describe, it } from "@effect/vitest"
import { says, stuck } from "@bowline/testing/peer/Act"
import { serve, type ScriptedPeer, type Target } from "@bowline/testing/peer/ScriptedPeer"
import * as Trouble from "@bowline/testing/unstable/peer/Trouble"
import { Clock, Config, Effect, Fiber, Layer, Logger, Random } from "effect"
import { TestClock } from "effect/testing"
import { memory, question, start } from "./call.ts"

/** How a call comes along, so that the steps go through all that it can wait for. */
const ways: Readonly<
  Record<string, { readonly streams: boolean; readonly troubles: ReadonlyArray<[Target, Trouble.Trouble]> }>
> = {
  "sends and polls": { streams: false, troubles: [] },
  "sends and polls a peer in trouble": {
    streams: false,
    troubles: [
      ["card", Trouble.late("100 millis")],
      ["message/send", Trouble.late("100 millis")],
      ["tasks/get", Trouble.late("100 millis")],
      ["tasks/get", Trouble.breaks("reset")],
      ["tasks/get", Trouble.cutsAnswer],
      ["tasks/cancel", Trouble.late("1 second")]
    ]
  },
  streams: { streams: true, troubles: [] },
  "takes up a stream that is lost, and polls": {
    streams: true,
    troubles: [
      ["message/stream", Trouble.resetsBehind(1)],
      ["tasks/resubscribe", Trouble.cutsBehind(1)],
      ["tasks/resubscribe", Trouble.answers(404)],
      ["tasks/get", Trouble.late("100 millis")]
    ]
  }
}

/** Lets every fiber come to its next wait; now and then time passes. */
const step = (count: number) =>
  Effect.andThen(Effect.yieldNow, count % 10 === 0 ? TestClock.adjust("100 millis") : Effect.void)

/** A clock that knows how many sleep by it. */
const counting = (clock: Clock.Clock) => {
  const sleeping = new Set<object>()
  const counted: Clock.Clock = {
    currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe(),
    currentTimeMillis: clock.currentTimeMillis,
    currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe(),
    currentTimeNanos: clock.currentTimeNanos,
    monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
    monotonicTimeNanos: clock.monotonicTimeNanos,
    sleep: (duration) =>
      Effect.suspend(() => {
        const sleeper = {}
        sleeping.add(sleeper)
        return Effect.ensuring(
          clock.sleep(duration),
          Effect.sync(() => sleeping.delete(sleeper))
        )
      })
  }
  return { counted, sleeping }
}

/** As many as let a call come to its end. */
const mostSteps = 300

const dialects = ["a2a-1.0", "a2a-0.3", "bindu"] as const

describe.each(dialects)("a call in %s", (dialect) => {
  it.effect.each(Object.entries(ways))(
    "that %s leaves nothing behind but its cancel, after whichever step it is interrupted",
    ([, { streams, troubles }]) =>
      Effect.gen(function* () {
        const interruptions = yield* Config.Int("BOWLINE_INTERRUPTIONS").pipe(Config.withDefault(30))
        const distance = mostSteps / interruptions
        let asked = 0
        for (let steps = yield* Random.nextIntBetween(0, distance); steps < mostSteps; steps += distance) {
          asked = yield* interruptAfter(steps, { dialect, streams, troubles })
        }
        assert.isAtLeast(asked, troubles.length, "the steps go far enough")
      }),
    600_000
  )
})

const interruptAfter = Effect.fnUntraced(
  function* (
    steps: number,
    { dialect, streams, troubles }: { readonly dialect: (typeof dialects)[number] } & (typeof ways)[string]
  ) {
    const peer: ScriptedPeer = yield* serve({ dialect, streams, acts: [says("Reading"), stuck] })
    for (const [target, trouble] of troubles) yield* peer.disturb(target, trouble)
    const { counted, sleeping } = counting(yield* Clock.Clock)
    const { fiber } = yield* start(question(peer.url, { dialect: "auto", streaming: streams })).pipe(
      Effect.provideService(Clock.Clock, counted)
    )
    for (let taken = 1; taken <= steps; taken++) yield* step(taken)
    const before = yield* peer.seen
    yield* Fiber.interrupt(fiber)
    yield* TestClock.adjust("10 seconds")

    const { cancels, polls, sends, streams: opened, subscriptions } = yield* peer.seen
    const at = `after ${steps} steps`
    assert.isUndefined([...sleeping][0], `a timer is left ${at}`)
    assert.strictEqual(yield* peer.requests.open, 0, `a request is open ${at}`)
    const asked = polls.length + sends.length + opened.length + subscriptions.length
    const askedBefore = [before.polls, before.sends, before.streams, before.subscriptions].flat().length
    assert.isAtMost(asked - askedBefore, 1, `asked again ${at}`)
    const [send] = [...sends, ...opened]
    assert.deepStrictEqual(cancels, send === undefined ? [] : [send.taskId], `cancelled ${at}`)
    return asked
  },
  Effect.provide(Layer.mergeAll(memory, Logger.layer([]))),
  Effect.scoped
)
