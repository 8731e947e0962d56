import { pass } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Scope } from "effect"
import * as Keeper from "../../src/plan/Keeper.ts"

class Job {
  readonly done = Deferred.makeUnsafe<void>()
  readonly events: Array<string> = []
  readonly name: string

  constructor(name: string) {
    this.name = name
  }

  finish(): void {
    Deferred.doneUnsafe(this.done, Effect.void)
  }
}

/** Jobs that end when they are asked to, but for the stubborn ones. */
const make = (capacity = 3) =>
  Keeper.make<string, Job>({
    capacity,
    end: (job) => {
      job.events.push("end")
      if (!job.name.startsWith("stubborn")) job.finish()
    },
    isWaiting: ({ name }) => name === "waiting",
    replace: (job) => {
      job.events.push("replace")
    },
    endWithin: "15 seconds",
    abandon: (job) => {
      job.events.push("abandon")
    }
  })

const start = (keeper: Keeper.Keeper<string, Job>, key: string, job = new Job(key)) =>
  Effect.as(
    keeper.run(key, (announce) => Effect.andThen(announce(job), Deferred.await(job.done))),
    job
  )

describe("Keeper", () => {
  it.effect("finds what a fiber has announced, until the fiber ends", () =>
    Effect.gen(function* () {
      const keeper = yield* make()
      const job = yield* start(keeper, "a")
      assert.strictEqual(keeper.find("a"), job)
      assert.isFalse(keeper.isIdle())
      job.finish()
      yield* pass("1 second")
      assert.isUndefined(keeper.find("a"))
      assert.isTrue(keeper.isIdle())
    }).pipe(Effect.scoped)
  )

  it.effect("begins a second run of a key when the first one has ended", () =>
    Effect.gen(function* () {
      const keeper = yield* make()
      const first = yield* start(keeper, "a")
      const second = new Job("a")
      const starting = yield* Effect.forkChild(start(keeper, "a", second))
      yield* pass("1 second")
      assert.deepStrictEqual(first.events, ["replace"])
      assert.strictEqual(keeper.find("a"), first)
      first.finish()
      yield* Fiber.join(starting)
      assert.strictEqual(keeper.find("a"), second)
    }).pipe(Effect.scoped)
  )

  it.effect("fails a run whose fiber dies before it has announced itself, and is idle then", () =>
    Effect.gen(function* () {
      const keeper = yield* make()
      const dying = yield* Effect.exit(keeper.run("a", () => Effect.die("a bug")))
      assert.deepStrictEqual(dying, Exit.die("a bug"))
      assert.isTrue(Exit.hasDies(yield* Effect.exit(keeper.run("a", () => Effect.void))))
      assert.isTrue(keeper.isIdle())
    }).pipe(Effect.scoped)
  )

  it.effect("has as many places as its capacity, for values and for those who have reserved one", () =>
    Effect.gen(function* () {
      const keeper = yield* make(2)
      const job = yield* start(keeper, "a")
      const place = yield* Scope.make()
      yield* Scope.provide(keeper.reserve, place)
      assert.strictEqual(keeper.room(), 0)
      assert.strictEqual(yield* Effect.flip(Effect.scoped(keeper.reserve)), "full")
      yield* Effect.scoped(keeper.delayDrain)
      job.finish()
      yield* pass("1 second")
      assert.isFalse(keeper.isIdle())
      yield* Scope.close(place, Exit.void)
      assert.isTrue(keeper.isIdle())
      assert.strictEqual(keeper.room(), 2)
    }).pipe(Effect.scoped)
  )

  it.effect("counts a value once, from its place to its end", () =>
    Effect.gen(function* () {
      const keeper = yield* make(2)
      const free: Array<number> = []
      const note = Effect.sync(() => void free.push(keeper.room()))
      const run = Effect.gen(function* () {
        const place = yield* keeper.reserve
        const job = new Job("a")
        const life = (announce: (job: Job) => Effect.Effect<void>) =>
          note.pipe(Effect.andThen(announce(job)), Effect.andThen(note), Effect.andThen(Deferred.await(job.done)))
        return yield* keeper.run("a", life, place)
      })
      const job = yield* Effect.scoped(Effect.tap(run, note))
      yield* note
      job.finish()
      yield* pass("1 second")
      yield* note
      assert.deepStrictEqual(free, [1, 1, 1, 1, 2])
    }).pipe(Effect.scoped)
  )

  it.effect("drains: refuses places, waits for the grace, and asks for an end then, also of what starts late", () =>
    Effect.gen(function* () {
      const keeper = yield* make()
      const jobs = [yield* start(keeper, "quick"), yield* start(keeper, "slow"), yield* start(keeper, "stubborn")]
      const place = yield* Scope.make()
      yield* Scope.provide(keeper.delayDrain, place)
      const draining = yield* Effect.forkChild(keeper.drain("30 seconds"))
      yield* pass("1 second")
      assert.isTrue(keeper.isDraining())
      assert.strictEqual(yield* Effect.flip(Effect.scoped(keeper.reserve)), "draining")
      jobs[0]?.finish()
      yield* pass("29 seconds", "1 second")
      const late = yield* start(keeper, "late")
      yield* Scope.close(place, Exit.void)
      yield* pass("14 seconds", "1 second")
      assert.deepStrictEqual(
        [...jobs, late].map(({ events }) => events),
        [[], ["end"], ["end"], ["end"]]
      )
      assert.isUndefined(draining.pollUnsafe())
      yield* pass("2 seconds", "1 second")
      assert.deepStrictEqual(jobs[2]?.events, ["end", "abandon"])
      assert.isDefined(draining.pollUnsafe())
    }).pipe(Effect.scoped)
  )

  it.effect("asks for the end of all when its scope closes, and interrupts what does not end", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const keeper = yield* Scope.provide(make(), scope)
      const job = yield* start(keeper, "a")
      const interrupted = Deferred.makeUnsafe<void>()
      const stubborn = new Job("stubborn")
      yield* keeper.run("b", (announce) =>
        Effect.andThen(announce(stubborn), Effect.never).pipe(
          Effect.onInterrupt(() => Deferred.succeed(interrupted, undefined))
        )
      )
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* pass("16 seconds", "1 second")
      yield* Fiber.join(closing)
      yield* Deferred.await(interrupted)
      assert.deepStrictEqual([job.events, stubborn.events], [["end"], ["end", "abandon"]])
    })
  )
})
