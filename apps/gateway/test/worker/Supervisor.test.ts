import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Option, Queue } from "effect"
import { TestClock } from "effect/testing"
import {
  type Death,
  type NeverListened,
  supervise,
  type TooManyDeaths,
  type Worker
} from "../../src/worker/Supervisor.ts"

/** Processes that do what the test says, and note what they are told. */
const make = Effect.fnUntraced(function* (count: number, listens: boolean = true) {
  const told: Array<string> = []
  const forks: Array<{
    readonly place: number
    readonly listen: Effect.Effect<void>
    readonly end: (death: Death) => Effect.Effect<void>
  }> = []
  /** Whether a worker listens by itself. */
  const state = { listens, nextPatience: Option.some(Duration.minutes(1)), leaves: true }
  const fork = Effect.fnUntraced(function* (place: number): Effect.fn.Return<Worker> {
    const name = `${place}.${forks.filter((fork) => fork.place === place).length + 1}`
    const listening = yield* Deferred.make<void>()
    const ended = yield* Deferred.make<Death>()
    const end = (death: Death) => Effect.asVoid(Deferred.succeed(ended, death))
    const note = (what: string) => Effect.sync(() => void told.push(`${what} ${name}`))
    forks.push({ place, listen: Effect.asVoid(Deferred.succeed(listening, undefined)), end })
    yield* note("fork")
    if (state.listens) yield* Deferred.succeed(listening, undefined)
    return {
      listening: Deferred.await(listening),
      ended: Deferred.await(ended),
      stop: Effect.andThen(note("stop"), end({ code: 0, signal: null })),
      leave: Effect.andThen(note("leave"), () => (state.leaves ? end({ code: 0, signal: null }) : Effect.void)),
      kill: Effect.andThen(note("kill"), end({ code: null, signal: "SIGKILL" }))
    }
  })
  const restartAsked = yield* Queue.unbounded<void>()
  const fiber = yield* supervise({
    count,
    fork,
    restartAsked,
    patience: Duration.minutes(1),
    nextPatience: Effect.sync(() => state.nextPatience)
  }).pipe(Effect.scoped, Effect.forkScoped)
  /** Lets all go on that can. */
  const turn = Effect.repeat(TestClock.adjust(0), { times: 20 })
  yield* turn
  const die = (at: number) => Effect.andThen(forks[at]?.end({ code: 1, signal: null }) ?? Effect.void, turn)
  const restart = Effect.andThen(Queue.offer(restartAsked, undefined), turn)
  const since = () => told.splice(0)
  return { die, fiber, forks, restart, since, state, turn }
})

const ended = (fiber: Fiber.Fiber<never, NeverListened | TooManyDeaths>) => Effect.flip(Fiber.join(fiber))

describe("the supervisor of workers", () => {
  it.effect("starts the first one alone, since it migrates the database", () =>
    Effect.gen(function* () {
      const { forks, since, turn } = yield* make(3, false)
      assert.deepStrictEqual(since(), ["fork 1.1"])
      yield* forks[0]?.listen ?? Effect.void
      yield* turn
      assert.deepStrictEqual(since(), ["fork 2.1", "fork 3.1"])
    })
  )

  it.effect("gives up at once if the first one ends before it listens", () =>
    Effect.gen(function* () {
      const { die, fiber, since } = yield* make(3, false)
      yield* die(0)
      assert.deepInclude(yield* ended(fiber), { _tag: "NeverListened", death: { code: 1, signal: null } })
      assert.deepStrictEqual(since(), ["fork 1.1"])
    })
  )

  it.effect("replaces one that dies, after a pause that doubles", () =>
    Effect.gen(function* () {
      const { die, since } = yield* make(2)
      since()
      yield* die(1)
      yield* TestClock.adjust(99)
      assert.deepStrictEqual(since(), [])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(since(), ["fork 2.2"])
      yield* die(2)
      yield* TestClock.adjust(199)
      assert.deepStrictEqual(since(), [])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(since(), ["fork 2.3"])
      // A minute later the pause is the first one again.
      yield* TestClock.adjust("1 minute")
      yield* die(3)
      yield* TestClock.adjust(100)
      assert.deepStrictEqual(since(), ["fork 2.4"])
    })
  )

  it.effect("gives up after ten deaths in a minute, and stops the others", () =>
    Effect.gen(function* () {
      const { die, fiber, forks, since } = yield* make(2)
      for (let death = 1; death < 10; death++) {
        since()
        yield* die(forks.length - 1)
        yield* TestClock.adjust("5 seconds")
        assert.deepStrictEqual(since(), [`fork 2.${death + 1}`])
      }
      yield* die(forks.length - 1)
      assert.deepInclude(yield* ended(fiber), { _tag: "TooManyDeaths", last: { code: 1, signal: null } })
      assert.deepStrictEqual(since(), ["stop 1.1"])
    })
  )

  it.effect("restarts one after the other, each when the next one listens", () =>
    Effect.gen(function* () {
      const { forks, restart, since, state, turn } = yield* make(2)
      since()
      state.listens = false
      yield* restart
      assert.deepStrictEqual(since(), ["fork 1.2"])
      yield* forks[2]?.listen ?? Effect.void
      yield* turn
      assert.deepStrictEqual(since(), ["leave 1.1", "fork 2.2"])
      yield* forks[3]?.listen ?? Effect.void
      yield* turn
      assert.deepStrictEqual(since(), ["leave 2.1"])
    })
  )

  it.effect("keeps what runs if the next one ends before it listens", () =>
    Effect.gen(function* () {
      const { die, fiber, restart, since, state } = yield* make(2)
      since()
      state.listens = false
      yield* restart
      yield* die(2)
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(since(), ["fork 1.2"])
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(since(), ["stop 1.1", "stop 2.1"])
    })
  )

  it.effect("keeps what runs while the configuration cannot be used", () =>
    Effect.gen(function* () {
      const { restart, since, state } = yield* make(2)
      since()
      state.nextPatience = Option.none()
      yield* restart
      assert.deepStrictEqual(since(), [])
      state.nextPatience = Option.some(Duration.minutes(1))
      yield* restart
      assert.deepStrictEqual(since(), ["fork 1.2", "leave 1.1", "fork 2.2", "leave 2.1"])
    })
  )

  it.effect("kills one that does not end when it leaves", () =>
    Effect.gen(function* () {
      const { restart, since, state, turn } = yield* make(1)
      since()
      state.leaves = false
      yield* restart
      assert.deepStrictEqual(since(), ["fork 1.2", "leave 1.1"])
      yield* TestClock.adjust("59 seconds")
      assert.deepStrictEqual(since(), [])
      yield* TestClock.adjust("1 second")
      yield* turn
      assert.deepStrictEqual(since(), ["kill 1.1"])
    })
  )

  it.effect("gives one that leaves the time of the configuration that it has read", () =>
    Effect.gen(function* () {
      const { restart, since, state, turn } = yield* make(1)
      state.nextPatience = Option.some(Duration.minutes(10))
      yield* restart
      since()
      state.leaves = false
      state.nextPatience = Option.some(Duration.minutes(1))
      yield* restart
      assert.deepStrictEqual(since(), ["fork 1.3", "leave 1.2"])
      yield* TestClock.adjust("599 seconds")
      assert.deepStrictEqual(since(), [])
      yield* TestClock.adjust("1 second")
      yield* turn
      assert.deepStrictEqual(since(), ["kill 1.2"])
    })
  )

  it.effect("stops all when it is interrupted in the middle of a restart", () =>
    Effect.gen(function* () {
      const { fiber, restart, since, state } = yield* make(2)
      since()
      state.listens = false
      yield* restart
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(since(), ["fork 1.2", "stop 1.1", "stop 2.1", "stop 1.2"])
    })
  )
})
