import { anonymous } from "@bowline/domain/caller/CallerName"
import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { wait } from "@bowline/testing/http/Move"
import { say, usage } from "@bowline/testing/provider/Turn"
import { question, type Script } from "@bowline/testing/unstable/provider/Script"
import { layer, pass } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"
import { Plans } from "../../src/plan/Plans.ts"
import { MayFire } from "../../src/schedule/Firings.ts"
import { Schedules } from "../../src/schedule/Schedules.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import { ScheduleStore } from "../../src/store/ScheduleStore.ts"
import { firingsOf, layerSchedules, outcomesOf, schedule } from "./Scheduled.ts"

const quick: Script = (asked) => [say(`answer to ${question(asked)}`)]

/** An answer takes 90 s: longer than a minute, shorter than two. */
const slow: Script = () => [say("one"), wait("90 seconds"), say("two")]

type Options = Parameters<typeof layer>[0]

const onPlans = (options: Partial<Options> = {}) =>
  Layer.provideMerge(layerSchedules, layer({ script: quick, ...options }))

const plansOf = Effect.flatMap(Plans, (plans) => plans.list(anonymous, {}, { limit: 100 }))
const statesOf = Effect.map(plansOf, ({ items }) => items.toReversed().map(({ state }) => state))

describe("a schedule", () => {
  it.effect("fires when it is due, is told its due time, and goes on without a reader", () =>
    Effect.gen(function* () {
      const { schedule_id } = yield* schedule({
        plan: { question: "{{schedule}}: {{due_at}} {{last_answer}}.", preferences: { on_disconnect: "cancel" } }
      })
      yield* pass("150 seconds", "1 second")
      const firings = yield* firingsOf(schedule_id)
      assert.deepStrictEqual(
        firings.map(({ late, minute, outcome }) => [minute, outcome, late < 100]),
        [
          [1, "started", true],
          [2, "started", true]
        ]
      )
      const plans = yield* PlanStore
      const asked: Array<string> = []
      for (const { plan_id } of firings) {
        if (plan_id === null) continue
        const plan = yield* plans.get(anonymous, plan_id)
        asked.push(plan.question)
        assert.strictEqual(plan.state, "completed")
      }
      const first = "mine: 1970-01-01T00:01:00.000Z ."
      assert.deepStrictEqual(asked, [first, `mine: 1970-01-01T00:02:00.000Z answer to ${first}.`])
      const sessions = new Set((yield* plansOf).items.map(({ session_id }) => session_id))
      assert.strictEqual(sessions.size, 2)
    }).pipe(Effect.provide(onPlans()))
  )

  it.effect("has one session for all firings, if it says so, and cuts a long answer", () =>
    Effect.gen(function* () {
      const { schedule_id } = yield* schedule({ plan: { session: "same", question: "{{last_answer}}?" } })
      yield* pass("130 seconds", "1 second")
      const { items } = yield* plansOf
      assert.deepStrictEqual(
        items.map(({ external_session_id }) => external_session_id),
        [schedule_id, schedule_id]
      )
      const plan = yield* (yield* PlanStore).get(anonymous, items[0]?.plan_id ?? assert.fail())
      assert.strictEqual(plan.question, `${"x".repeat(4_096)}?`)
    }).pipe(Effect.provide(onPlans({ script: () => [say("x".repeat(5_000))] })))
  )

  it.effect("skips, queues or interrupts while its earlier plan is not over", () =>
    Effect.gen(function* () {
      const skips = yield* schedule({ name: "skips", overlap: "skip" })
      const queues = yield* schedule({ name: "queues", overlap: "queue" })
      const interrupts = yield* schedule({ name: "interrupts", overlap: "interrupt" })
      yield* pass("190 seconds", "1 second")
      assert.deepStrictEqual(yield* outcomesOf(skips.schedule_id), ["1 started", "2 skipped", "3 started"])
      const waited = yield* firingsOf(queues.schedule_id)
      assert.deepStrictEqual(
        waited.map(({ minute, outcome }) => `${minute} ${outcome}`),
        ["1 started", "2 started"]
      )
      // Behind the first one, which ends 90 s after it was due, and not earlier.
      assert.isAtLeast(waited[1]?.late ?? 0, 30_000)
      assert.isBelow(waited[1]?.late ?? 0, 32_000)
      assert.deepStrictEqual(yield* outcomesOf(interrupts.schedule_id), ["1 started", "2 started", "3 started"])
      const plans = yield* PlanStore
      const ends: Array<unknown> = []
      for (const { plan_id } of yield* firingsOf(interrupts.schedule_id)) {
        const { error, state } = yield* plans.get(anonymous, plan_id ?? assert.fail())
        ends.push([state, error?.reason])
      }
      assert.deepStrictEqual(ends, [
        ["aborted", "superseded"],
        ["aborted", "superseded"],
        ["running", undefined]
      ])
      const [, skipped] = yield* firingsOf(skips.schedule_id)
      assert.match(skipped?.reason ?? "", /^plan_\S+ is not over$/)
    }).pipe(Effect.provide(onPlans({ script: slow })))
  )

  it.effect("fires nothing that came while it was paused, nor before its new times", () =>
    Effect.gen(function* () {
      const schedules = yield* Schedules
      const { schedule_id } = yield* schedule({ paused: true })
      yield* pass("130 seconds", "1 second")
      yield* schedules.change(anonymous, schedule_id, { paused: false }, undefined)
      yield* pass("60 seconds", "1 second")
      assert.deepStrictEqual(yield* outcomesOf(schedule_id), ["3 started"])
      const when = { every_ms: 120_000 }
      const { next_at } = yield* schedules.change(anonymous, schedule_id, { when }, undefined)
      assert.strictEqual(Date.parse(next_at ?? ""), 190_000 + 120_000)
      yield* schedules.change(anonymous, schedule_id, { name: "renamed", paused: false }, undefined)
      assert.strictEqual((yield* schedules.get(anonymous, schedule_id)).next_at, next_at)
    }).pipe(Effect.provide(onPlans()))
  )

  it.effect("is paused by ten refusals in a row, with a warning", () =>
    Effect.gen(function* () {
      const lines: Array<unknown> = []
      const log = Logger.make(({ logLevel, message }) => void (logLevel === "Warn" && lines.push(message)))
      let refused = 0
      const mayFire = () => Effect.sync(() => (refused++ === 3 ? undefined : "no more"))
      yield* Effect.gen(function* () {
        const { schedule_id } = yield* schedule()
        yield* pass("20 minutes", "5 seconds")
        const outcomes = (yield* firingsOf(schedule_id)).map(({ outcome, reason }) => `${outcome} ${reason}`)
        const refusals = (count: number) => Array.from({ length: count }, () => "refused no more")
        assert.deepStrictEqual(outcomes, [...refusals(3), "started null", ...refusals(10)])
        const { failures, next_at, paused } = yield* (yield* Schedules).get(anonymous, schedule_id)
        assert.deepStrictEqual({ failures, next_at, paused }, { failures: 10, next_at: null, paused: true })
        assert.deepStrictEqual(lines, [["schedule_paused"]])
      }).pipe(
        Effect.provide(
          onPlans().pipe(Layer.provide(Layer.succeed(MayFire, mayFire)), Layer.provideMerge(Logger.layer([log])))
        )
      )
    })
  )

  it.effect("is refused what its caller could not ask now, and what its budget does not have", () =>
    Effect.gen(function* () {
      const { schedule_id } = yield* schedule({ plan: { question: "{{last_answer}}" } })
      const { schedule_id: other } = yield* schedule({ name: "other" })
      yield* pass("130 seconds", "1 second")
      const [first] = yield* firingsOf(schedule_id)
      assert.include(first?.reason, "plan.question: Expected a question that is not blank")
      const [started, refused] = yield* firingsOf(other)
      assert.deepStrictEqual([started?.outcome, refused?.outcome], ["started", "refused"])
      assert.include(refused?.reason, "tokens of this day")
    }).pipe(
      Effect.provide(
        onPlans({
          script: () => [say("x"), usage({ input_tokens: 1_000, output_tokens: 1_000 })],
          config: { budgetOf: () => ({ tokens: 1_000, tool_calls: 10 }) }
        })
      )
    )
  )

  it.effect("is tried again for a minute by a gateway that takes no plans, and refused then", () =>
    Effect.gen(function* () {
      const { schedule_id } = yield* schedule({ overlap: "queue" })
      const { schedule_id: once } = yield* schedule({ name: "once", when: { at: "1970-01-01T00:01:10Z" } })
      yield* pass("100 seconds", "1 second")
      // The only place is free from second 90 on.
      yield* pass("60 seconds", "1 second")
      const [firing] = yield* firingsOf(once)
      if (firing === undefined) return assert.fail()
      assert.strictEqual(firing.outcome, "refused")
      assert.include(firing.reason, "runs as many plans as it may")
      assert.isAtLeast(firing.late, 60_000)
      assert.isBelow(firing.late, 63_000)
      assert.strictEqual((yield* firingsOf(schedule_id))[0]?.outcome, "started")
    }).pipe(
      Effect.provide(onPlans({ script: () => [say("one"), wait("100 seconds"), say("two")], config: { maxPlans: 1 } }))
    )
  )

  it.effect("fires once though the answers of its store are lost", () => {
    let lost = 0
    const noAnswer = new StorageError({ reason: new Unavailable({ cause: "no answer" }) })
    return Effect.gen(function* () {
      const { schedule_id } = yield* schedule()
      yield* pass("130 seconds", "1 second")
      assert.strictEqual(lost, 2)
      assert.deepStrictEqual(yield* outcomesOf(schedule_id), ["1 started", "2 started"])
      assert.lengthOf((yield* plansOf).items, 2)
    }).pipe(
      Effect.provide(
        onPlans({
          disturb: ({ create }) => ({
            create: (plan, maxQueue) =>
              Effect.flatMap(create(plan, maxQueue), () =>
                Effect.andThen(
                  Effect.sync(() => lost++),
                  Effect.fail(noAnswer)
                )
              )
          })
        })
      )
    )
  })

  it.effect("fires by hand whatever it says of overlaps and pauses, and changes nothing of its due times", () =>
    Effect.gen(function* () {
      const schedules = yield* Schedules
      const plans = yield* Plans
      const { schedule_id } = yield* schedule({ plan: { question: "at {{due_at}}" } })
      yield* pass("70 seconds", "1 second")
      const before = yield* schedules.get(anonymous, schedule_id)
      const { plan_id } = yield* Effect.scoped(
        Effect.flatMap(schedules.asked(anonymous, schedule_id), (asked) => plans.start(asked))
      )
      const after = yield* schedules.get(anonymous, schedule_id)
      assert.deepStrictEqual(after, { ...before, last_at: "1970-01-01T00:01:10.000Z", last_plan_id: plan_id })
      assert.strictEqual((yield* plans.get(anonymous, plan_id)).question, "at 1970-01-01T00:01:10.000Z")
      assert.deepStrictEqual(yield* statesOf, ["running", "running"])
      yield* pass("60 seconds", "1 second")
      assert.deepStrictEqual(yield* outcomesOf(schedule_id), ["1 started", `${70 / 60} started`, "2 skipped"])
    }).pipe(Effect.provide(onPlans({ script: slow })))
  )
})

describe("due times that came while no replica ran", () => {
  /** Two schedules of each kind, whose replica is away from minute 1.5 until minute 6.5. */
  const away = Effect.fnUntraced(function* (fields: Readonly<Record<string, unknown>>) {
    const { schedule_id } = yield* schedule(fields).pipe(Effect.provide(onSchedules))
    yield* Effect.scoped(Effect.andThen(Layer.build(onFirings), pass("90 seconds", "1 second")))
    yield* pass("300 seconds", "10 seconds")
    yield* Effect.scoped(Effect.andThen(Layer.build(onFirings), pass("60 seconds", "1 second")))
    return yield* outcomesOf(schedule_id).pipe(Effect.provide(onSchedules))
  })
  const onSchedules = Layer.fresh(Schedules.layer)
  const onFirings = Layer.fresh(layerSchedules)

  it.effect.each([
    ["none", ["1 started", "2 missed", "3 missed", "4 missed", "5 missed", "6 started", "7 started"]],
    ["last", ["1 started", "2 missed", "3 missed", "4 missed", "5 started", "6 started", "7 started"]],
    ["all", ["1 started", "2 started", "3 started", "4 started", "5 started", "6 started", "7 started"]]
  ] as const)("are caught up: %s", ([catch_up, outcomes]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* away({ catch_up }), [...outcomes])
      assert.lengthOf((yield* plansOf).items, outcomes.filter((outcome) => outcome.endsWith("started")).length)
      assert.strictEqual((yield* (yield* ScheduleStore).claim(1)).claimed.length, 0)
    }).pipe(Effect.provide(layer({ script: quick })))
  )

  it.effect("wait for one another where overlaps are skipped", () =>
    Effect.gen(function* () {
      const outcomes = yield* away({ catch_up: "all", overlap: "skip" })
      assert.deepStrictEqual(outcomes, ["1 started", "2 started"])
      const open = (yield* statesOf).filter((state) => state === "running")
      assert.lengthOf(open, 1)
    }).pipe(Effect.provide(layer({ script: slow })))
  )
})
