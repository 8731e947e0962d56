import { anonymous } from "@bowline/domain/caller/CallerName"
import { ScheduleId } from "@bowline/domain/unstable/schedule/Schedule"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import * as Firings from "@bowline/runtime/unstable/schedule/Firings"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { ScheduleStore } from "@bowline/runtime/unstable/store/ScheduleStore"
import { assert, describe, it } from "@effect/vitest"
import { Config, Context, Effect, Layer, Schedule } from "effect"
import { epoch } from "../../src/simulation/process/Process.ts"
import * as ReplicaClient from "../../src/simulation/replica/ReplicaClient.ts"
import { type Checker, type Overrides, simulate } from "../../src/simulation/Simulation.ts"

/** When the schedules are due, in milliseconds of virtual time: each of them once, while the faults strike. */
const dues = Array.from({ length: 12 }, (_, index) => 500 + index * 1_700)

const idOf = (index: number) => ScheduleId.make(`schedule_00000000-0000-4000-8000-${String(index).padStart(12, "0")}`)

/** Makes the schedules if nobody has, however often an answer is lost. */
const schedules = Effect.gen(function* () {
  const store = yield* ScheduleStore
  for (const [index, due] of dues.entries()) {
    yield* store
      .create(anonymous, {
        schedule_id: idOf(index),
        name: `${index}`,
        when: { at: fromMillis(epoch + due) },
        plan: { question: `FACT-s${index} is due` },
        overlap: "skip",
        catch_up: "last",
        paused: false,
        next: epoch + due
      })
      .pipe(
        Effect.catchTags({ NameTaken: () => Effect.void, TooManySchedules: Effect.die }),
        Effect.retry(Schedule.spaced("200 millis"))
      )
  }
})

/** Replicas that fire schedules. */
const client = (site: ReplicaClient.Site) =>
  Layer.mergeAll(
    ReplicaClient.layerServices(site),
    Layer.provide(Firings.layer, PlansConfig.layer({ model: "openai/gpt-5-mini" })),
    Layer.effectDiscard(Effect.forkScoped(Effect.ignore(schedules)))
  )

/** How long it may take behind the last fault until a due time has fired: a claim of a process that has died, and the start of another one. */
const longest = 60_000

const allFired: Checker = ({ end, faultsEnd, firings }) =>
  dues.flatMap((due, index) =>
    Math.max(due, faultsEnd) + longest > end || firings.some(({ schedule_id }) => schedule_id === idOf(index))
      ? []
      : [`the schedule that is due at ${due} ms has not fired`]
  )

const run = (seed: number, overrides: Overrides = {}) =>
  Effect.promise(() => simulate({ seed, client, overrides, rules: { allFired } }))

describe("schedules under the faults of seeds", () => {
  it.live(
    "fire each due time once",
    () =>
      Effect.gen(function* () {
        const first = yield* Config.Int("BOWLINE_SEED").pipe(Config.withDefault(1))
        const count = yield* Config.Int("BOWLINE_SCHEDULE_SEEDS").pipe(Config.withDefault(4))
        let fired = 0
        for (let seed = first; seed < first + count; seed++) {
          const { observed, violations } = yield* run(seed)
          fired += observed.firings.length
          assert.deepStrictEqual({ seed, violations }, { seed, violations: [] })
        }
        assert.isAbove(fired, 0)
      }),
    3_600_000
  )

  it.live("are found to fire twice, if a firing does not move its schedule", () =>
    Effect.gen(function* () {
      const overrides: Overrides = {
        stores: (stores) => {
          const plans = Context.get(stores, PlanStore)
          const create: typeof plans.create = ({ firing, ...plan }, maxQueue) =>
            plans.create({ ...plan, ...(firing && { firing: { ...firing, claimed: undefined } }) }, maxQueue)
          return Context.add(stores, PlanStore, { ...plans, create })
        }
      }
      const { violations } = yield* run(1, overrides)
      assert.include(
        violations.map(({ rule }) => rule),
        "firings"
      )
    })
  )
})
