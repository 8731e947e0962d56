import { anonymous } from "@bowline/domain/caller/CallerName"
import { say } from "@bowline/testing/provider/Turn"
import { layerOnStore, pass } from "@bowline/testing/unstable/TestKit"
import { assert, it } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Random, Scope } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { Plans } from "../../src/plan/Plans.ts"
import * as Firings from "../../src/schedule/Firings.ts"
import { Schedules } from "../../src/schedule/Schedules.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import { ScheduleStore } from "../../src/store/ScheduleStore.ts"
import { firingsOf, schedule } from "./Scheduled.ts"

/** How many replicas are killed, and under how many schedules. */
const kills = Number(process.env["BOWLINE_SCHEDULE_KILLS"] ?? 10)
const count = Number(process.env["BOWLINE_SCHEDULES"] ?? 20)
const seed = Number(process.env["BOWLINE_SCHEDULE_SEED"] ?? 1)

/** What fires schedules on the stores that are there, in a process that can die at any of its statements: from then on nothing of it reaches them. */
const mortal = Effect.gen(function* () {
  let isDead = false
  /** The statement is executed or not, and its answer never comes. */
  const alive = <A, E, R>(statement: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() =>
      isDead ? Effect.never : Effect.flatMap(statement, (answer) => (isDead ? Effect.never : Effect.succeed(answer)))
    )
  /** It takes a while on its way there and back, in which the process may die. */
  const onTheWay = <A, E, R>(statement: Effect.Effect<A, E, R>) =>
    Effect.sleep("40 millis").pipe(Effect.andThen(alive(statement)), Effect.tap(Effect.sleep("40 millis")), (sent) =>
      Effect.flatMap(sent, (answer) => (isDead ? Effect.never : Effect.succeed(answer)))
    )
  const store = yield* ScheduleStore
  const plans = yield* Plans
  const stores = Layer.succeedContext(
    Context.make(ScheduleStore, {
      ...store,
      claim: (limit) => onTheWay(store.claim(limit)),
      settle: (...given) => onTheWay(store.settle(...given)),
      postpone: (...given) => onTheWay(store.postpone(...given))
    }).pipe(Context.add(Plans, { ...plans, start: (asked) => onTheWay(plans.start(asked)) }))
  )
  const scope = yield* Scope.make()
  yield* Layer.buildWithScope(Layer.provide(Layer.fresh(Firings.layer), stores), scope)
  // Nobody cleans up after the dead: its fibers wait for ever.
  return { kill: Effect.sync(() => void (isDead = true)) }
})

it.effect(
  `each due time fires once while ${kills} replicas are killed`,
  () =>
    Effect.gen(function* () {
      const kinds = ["none", "last", "all"] as const
      const made = yield* Effect.forEach(Array.from({ length: count }).keys(), (index) =>
        schedule({ name: `${index}`, catch_up: kinds[index % 3] })
      )
      const alive = [yield* mortal, yield* mortal]
      for (let killed = 0; killed < kills; killed++) {
        yield* pass(yield* Random.nextIntBetween(1_000, 40_000), "100 millis")
        const index = killed % 2
        yield* alive[index]?.kill ?? Effect.void
        // Sometimes the other one is alone for a while.
        if (yield* Random.nextBoolean) yield* pass("20 seconds", "100 millis")
        alive[index] = yield* mortal
      }
      yield* pass("30 seconds", "100 millis")
      const { items } = yield* (yield* Plans).list(anonymous, {}, { limit: 1_000_000 })
      const plans = yield* PlanStore
      let started = 0
      for (const { schedule_id } of made) {
        const firings = yield* firingsOf(schedule_id)
        assert.deepStrictEqual(
          firings.map(({ minute, outcome }) => `${minute} ${outcome}`),
          firings.map((_, index) => `${index + 1} started`)
        )
        const { next_at } = yield* (yield* Schedules).get(anonymous, schedule_id)
        assert.strictEqual(Date.parse(next_at ?? ""), (firings.length + 1) * 60_000)
        // A claim ends with its process 15 s later at most, and is looked at within a minute.
        for (const { late, plan_id } of firings) {
          assert.isBelow(late, 60_000)
          assert.strictEqual((yield* plans.get(anonymous, plan_id ?? assert.fail())).state, "completed")
        }
        assert.strictEqual(new Set(firings.map(({ plan_id }) => plan_id)).size, firings.length)
        started += firings.length
      }
      assert.strictEqual(items.length, started)
    }).pipe(
      Effect.provide(
        Schedules.layer.pipe(
          Layer.provideMerge(layerOnStore({ script: () => [say("done")] })),
          // It drops nothing, however many plans there are.
          Layer.provideMerge(MemoryStore.layerWith({ sessionTtl: Duration.days(30), maxBytes: Infinity }))
        )
      ),
      Random.withSeed(`${seed}`)
    ),
  1_800_000
)
