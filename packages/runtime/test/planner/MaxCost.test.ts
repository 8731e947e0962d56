import { anonymous } from "@bowline/domain/caller/CallerName"
import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { stall } from "@bowline/testing/http/Move"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import type { Asked } from "@bowline/testing/unstable/provider/Script"
import { callTool, say, usage } from "@bowline/testing/provider/Turn"
import { all, layer, layerOnStore, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { type Model, noOverrides, overrides } from "../../src/provider/ModelTable.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import { bob } from "../plan/Bob.ts"
import { askAndKill, hi, mortal, peer, replayed } from "../plan/Mortal.ts"

const price = { input: 1, output: 10 }
const priced = (model: Partial<Model> = {}) => {
  const models = overrides([["scripted/model", { price, ...model }]])
  return { models: () => models }
}
/** 0.0029 dollars. */
const spends = usage({ input_tokens: 900, output_tokens: 200 })
const busy = ({ messages, toolChoice }: Asked) => [
  ...(toolChoice === "none" ? [say("enough")] : [callTool("bob_ask", { input: String(messages.length) })]),
  spends
]

const ask = (preferences: object, given: Partial<Parameters<typeof layer>[0]> = {}) =>
  Effect.gen(function* () {
    const { frames } = yield* post({ question: "?", agents: [bob], preferences })
    const events = yield* readAll(frames)
    return { events, asked: yield* (yield* ScriptedProvider).asked.all }
  }).pipe(
    Effect.provide(layer({ script: busy, peers: { call: () => Effect.succeed(hi) }, config: priced(), ...given })),
    Effect.scoped
  )

describe("max_cost_usd", () => {
  it.effect("ends the calls of tools once it is used up, and asks for the answer", () =>
    Effect.gen(function* () {
      const { asked, events } = yield* ask({ max_cost_usd: 0.0087 })
      assert.deepInclude(single(events, "final"), { stop_reason: "max_cost", text: "enough", steps: 4 })
      assert.strictEqual(asked.length, 4)
      const { events: longer } = yield* ask({ max_cost_usd: 0.008_701 })
      assert.deepInclude(single(longer, "final"), { stop_reason: "max_cost", steps: 5 })
    })
  )

  it.effect("adds up without the noise of binary fractions", () =>
    Effect.gen(function* () {
      // Eight times 0.1 is less than 0.8 there.
      const config = { models: () => overrides([["scripted/model", { price: { input: 100, output: 0 } }]]) }
      const tenth = usage({ input_tokens: 1_000 })
      const script = (asked: Asked) => busy(asked).map((move) => (move === spends ? tenth : move))
      const { events } = yield* ask({ max_cost_usd: 0.8 }, { config, script })
      assert.deepInclude(single(events, "final"), { stop_reason: "max_cost", steps: 9 })
    })
  )

  it.effect(
    "ends the plan in budget_exceeded where the next request alone may cost more, with its longest answer",
    () =>
      Effect.gen(function* () {
        const config = priced({ outputLimit: 1_000 })
        const { asked, events } = yield* ask({ max_cost_usd: 0.01 }, { config })
        assert.deepStrictEqual(asked, [])
        const error = single(events, "error")
        assert.deepInclude(error, { code: "budget_exceeded", retryable: false })
        assert.match(
          error.message,
          /^The next request alone may cost 0\.01\d+ US dollars .+ of preferences\.max_cost_usd$/
        )
        const { estimated_cost_usd, estimated_tokens } = error.data ?? {}
        assert.closeTo(Number(estimated_cost_usd), 0.01 + Number(estimated_tokens) / 1_000_000, 1e-12)
        const { events: fits } = yield* ask({ max_cost_usd: 0.012, max_steps: 1 }, { config })
        assert.strictEqual(single(fits, "final").stop_reason, "max_steps")
      })
  )

  it.effect("is refused for a model of unknown price, a fallback and the model of summaries, too, which it names", () =>
    Effect.gen(function* () {
      const config = {
        ...priced(),
        fallbackModels: ["scripted/model", "scripted/dear"],
        summaryModel: "scripted/short"
      }
      const issuesOf = (preferences: object, given: object) =>
        Effect.map(Effect.flip(ask(preferences, { config: { ...config, ...given } })), (refused) =>
          refused._tag === "InvalidRequest" ? refused.issues : assert.fail(refused._tag)
        )
      const issues = yield* issuesOf({ max_cost_usd: 1 }, {})
      assert.deepStrictEqual(
        issues.map(({ path }) => path),
        [
          ["preferences", "max_cost_usd"],
          ["preferences", "max_cost_usd"]
        ]
      )
      assert.match(issues[0]?.message ?? "", /price of scripted\/dear, which preferences\.max_cost_usd limits/)
      assert.match(issues[1]?.message ?? "", /scripted\/short/)
      const budgetOf = () => ({ tokens: Infinity, tool_calls: Infinity, month_cost_usd: 1 })
      const [ofBudget] = yield* issuesOf({}, { budgetOf })
      assert.match(ofBudget?.message ?? "", /price of scripted\/dear, which the budget of anonymous limits/)
      assert.deepStrictEqual(ofBudget?.path, ["preferences", "model"])
      const { events } = yield* ask({}, { config })
      assert.strictEqual(single(events, "final").stop_reason, "max_steps")
      const unpriced = { ...config, models: () => noOverrides, unknownPrice: "ignore" as const }
      const { events: ignored } = yield* ask({ max_cost_usd: 0.000_001 }, { config: unpriced })
      assert.strictEqual(single(ignored, "final").stop_reason, "max_steps")
    })
  )

  it.effect(
    "counts what is known of the cost, also where the next process goes on with the plan, and its database is away for a while",
    () => {
      const { peers } = peer()
      let steps = 0
      const config = { models: () => (steps === 1 ? priced().models() : noOverrides), unknownPrice: "ignore" as const }
      return Effect.gen(function* () {
        const first = yield* mortal({
          script: ({ messages }: Asked) =>
            ++steps === 3 ? [stall] : [callTool("bob_ask", { input: String(messages.length) }), spends],
          peers,
          config
        })
        const { plan_id } = yield* askAndKill(first, { agents: [bob], preferences: { max_cost_usd: 0.0029 } })
        const store = yield* PlanStore
        // It is away for a second when the plan has been taken over.
        let awayUntil = 0
        const flaky: typeof store = {
          ...store,
          takeOver: (...given) =>
            Effect.tap(store.takeOver(...given), (taken) =>
              Effect.map(
                Clock.currentTimeMillis,
                (now) => void (awayUntil = taken.length > 0 ? now + 1_000 : awayUntil)
              )
            ),
          events: (...given) =>
            Effect.flatMap(Clock.currentTimeMillis, (now) =>
              now < awayUntil
                ? Effect.fail(new StorageError({ reason: new Unavailable({ cause: "away" }) }))
                : store.events(...given)
            )
        }
        const second = yield* mortal({ script: busy, peers, config }).pipe(Effect.provideService(PlanStore, flaky))
        yield* pass("25 seconds", "500 millis")
        const events = yield* replayed(second, plan_id)
        assert.deepInclude(single(events, "final"), { stop_reason: "max_cost" })
        assert.strictEqual((yield* second.plans.get(anonymous, plan_id)).cost_usd, null)
      }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
    }
  )
})

describe("a budget in money", () => {
  it.effect("is of the day and of the month, in UTC", () => {
    const budgetOf = () => ({ tokens: Infinity, tool_calls: Infinity, cost_usd: 0.0058, month_cost_usd: 0.0145 })
    const process = layerOnStore({ script: () => [say("ok"), spends], config: { ...priced(), budgetOf } })
    /** What becomes of plans that begin then, each costing 0.0029. */
    const plansAt = (time: string, count: number) =>
      Effect.andThen(
        TestClock.setTime(Date.parse(time)),
        Effect.forEach(Array.from({ length: count }), () =>
          Effect.flatMap(post({ question: "?" }), ({ frames }) => readAll(frames))
        ).pipe(Effect.provide(process), Effect.scoped)
      )
    const ends = (plans: ReadonlyArray<Parameters<typeof all>[0]>) =>
      plans.map((events) => all(events, "error")[0] ?? single(events, "final").stop_reason)
    return Effect.gen(function* () {
      const [first, second, ofDay] = ends(yield* plansAt("2026-03-30T23:59:00Z", 3))
      assert.deepStrictEqual([first, second], ["stop", "stop"])
      assert(typeof ofDay === "object")
      assert.deepStrictEqual(ofDay.data, {
        cost_usd_used: 0.0058,
        cost_usd_per_day: 0.0058,
        resets_at: "2026-03-31T00:00:00.000Z"
      })
      assert.match(
        ofDay.message,
        /^anonymous has used 0\.0058 of 0\.0058 US dollars of this day\. The next day begins at 2026-03-31T/
      )
      assert.deepStrictEqual(ends(yield* plansAt("2026-03-31T00:00:00Z", 2)), ["stop", "stop"])
      assert.deepInclude(yield* (yield* PlanStore).spent(anonymous, "2026-03-31"), {
        cost_usd: 0.0058,
        month_cost_usd: 0.0116
      })
      assert.deepStrictEqual(ends(yield* plansAt("2026-04-01T00:00:00Z", 2)), ["stop", "stop"])
      assert.deepStrictEqual(ends(yield* plansAt("2026-04-02T00:00:00Z", 2)), ["stop", "stop"])
      const [last, ofMonth] = ends(yield* plansAt("2026-04-30T23:59:00Z", 2))
      assert.strictEqual(last, "stop")
      assert(typeof ofMonth === "object")
      assert.deepInclude(ofMonth.data, { cost_usd_per_month: 0.0145, resets_at: "2026-05-01T00:00:00.000Z" })
    }).pipe(Effect.provide(MemoryStore.layer))
  })

  it.effect(
    "ends the calls of a plan that has used it up, and refuses a request that costs more than a whole day",
    () =>
      Effect.gen(function* () {
        const budgetOf = (cost_usd: number) => () => ({ tokens: Infinity, tool_calls: Infinity, cost_usd })
        const { events } = yield* ask({}, { config: { ...priced(), budgetOf: budgetOf(0.005) } })
        assert.deepInclude(single(events, "final"), { stop_reason: "max_cost", steps: 3 })
        const { events: small } = yield* ask({}, { config: { ...priced(), budgetOf: budgetOf(0.000_01) } })
        const { code, message } = single(small, "error")
        assert.strictEqual(code, "budget_exceeded")
        assert.match(message, /more than the 0\.00001 of the budget of anonymous$/)
      })
  )
})
