import { OverviewStore, type SpendingQuery } from "@bowline/runtime/unstable/store/OverviewStore"
import type { PlanChange } from "@bowline/runtime/unstable/store/PlanStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect } from "effect"
import assert from "node:assert/strict"
import * as Given from "../Given.ts"
import type { StoreCase } from "../StoreCase.ts"

const today = "2026-01-02"

/** What a charge of `times` is, but for its names: 18 tokens, 3 calls and a quarter of a thousandth of a dollar. */
const charged = (times: number, given: Partial<Extract<PlanChange, { readonly _tag: "Charged" }>> = {}): PlanChange => {
  const { cost_usd, usage } = Given.progress
  return {
    _tag: "Charged",
    day: today,
    model: "scripted/model",
    plans: 0,
    tool_calls: 3 * times,
    usage: {
      ...usage,
      input_tokens: 11 * times,
      output_tokens: 7 * times,
      cached_input_tokens: 5 * times
    },
    cost_usd: cost_usd === null ? null : cost_usd * times,
    ...given
  }
}

/** What was charged to the owner of a plan on a day, in multiples of a charge. */
const spent = Effect.fnUntraced(function* ({ plan }: Given.Stored, day: string = today) {
  const { tokens, tool_calls } = yield* (yield* PlanStore).spent(plan.caller, day)
  return [tokens / 18, tool_calls / 3]
})

const dollars = Effect.fnUntraced(function* ({ plan }: Given.Stored, day: string = today) {
  const { cost_usd, month_cost_usd } = yield* (yield* PlanStore).spent(plan.caller, day)
  return [cost_usd, month_cost_usd]
})

const rowsBy = Effect.fnUntraced(function* (
  { plan: { caller: owner } }: Given.Stored,
  by: SpendingQuery["by"],
  from: string = "2025-01-01",
  to: string = "2026-12-31"
) {
  return yield* (yield* OverviewStore).spendings({ owner, from, to, by })
})

export const spendingCases: ReadonlyArray<StoreCase> = [
  {
    title: "charges an owner with what no plan has used, each time",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      const store = yield* PlanStore
      yield* Given.write(held, [charged(1)], [Given.row(2, "usage")])
      const { usage } = Given.progress
      const once = { day: today, model: "scripted/model", plans: 0, tool_calls: 3, cost_usd: null }
      const outside = { ...once, usage: { ...usage, input_tokens: 11, output_tokens: 7 } }
      yield* store.charge(held.plan.caller, outside)
      yield* store.charge(held.plan.caller, outside)
      assert.deepEqual(yield* spent(held), [3, 3])
      assert.equal((yield* rowsBy(held, "caller"))[0]?.cost_usd, null)
    })
  },
  {
    title: "charges a day with what a commit has used, however often it is written",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      assert.deepEqual(yield* spent(held), [0, 0])
      yield* Given.write(held, [charged(1), charged(1)], [Given.row(2, "usage")])
      yield* Given.write(held, [charged(1), charged(1)], [Given.row(2, "usage")])
      const store = yield* PlanStore
      const again = store.commit([Given.commitOf(held, [charged(2)], [Given.row(3, "usage")])])
      yield* Effect.all([again, again, again, again], { concurrency: "unbounded" })
      assert.deepEqual(yield* spent(held), [4, 4])
      const message = yield* Given.appended("hello")
      yield* Given.write(held, [message, charged(1)])
      yield* Given.write(held, [message, charged(1)])
      assert.deepEqual(yield* spent(held), [5, 5])
      yield* Given.write(
        held,
        [
          charged(2, { day: "2026-01-03" }),
          { _tag: "Settled", outcome: Given.completed, progress: Given.progress, at: Given.later }
        ],
        [Given.row(4, "usage")]
      )
      assert.deepEqual(yield* spent(held), [5, 5])
      assert.deepEqual(yield* spent(held, "2026-01-03"), [2, 2])
      assert.deepEqual(yield* dollars(held, "2026-01-03"), [0.0005, 0.00175])
      assert.deepEqual(yield* dollars(held), [0.00125, 0.00125])
      assert.deepEqual(yield* dollars(held, "2026-02-01"), [0, 0])
    })
  },
  {
    title: "adds up what the plans of one owner use, whatever replica and batch they are of",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const owner = yield* Given.newOwner
      const replica = yield* Given.newReplica
      const first = yield* Given.createHeld({ owner, replica })
      const second = yield* Given.createHeld({ owner, replica })
      const elsewhere = yield* Given.createHeld({ owner })
      const other = yield* Given.createHeld()
      const commitOf = (stored: Given.Stored, times: number) =>
        Given.commitOf(stored, [charged(times)], [Given.row(2, "usage")])
      const batch = [first, second, other].map((stored) => commitOf(stored, 1))
      yield* Effect.all([store.commit(batch), store.commit([commitOf(elsewhere, 5)])], { concurrency: 2 })
      assert.deepEqual(yield* spent(first), [7, 7])
      assert.deepEqual(yield* spent(other), [1, 1])
    })
  },
  {
    title: "charges nothing for a plan that another replica has taken over, which goes on from what was stored",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const stale = yield* Given.createHeld()
      yield* Given.write(stale, [charged(2)], [Given.row(2, "usage")])
      yield* Given.abandon
      const taken = yield* Given.takeOver(stale, yield* Given.newReplica)
      yield* store.commit([Given.commitOf(stale, [charged(9)], [Given.row(3, "usage")])])
      yield* Given.write(taken, [charged(1)], [Given.row(3, "usage")])
      assert.deepEqual(yield* spent(stale), [3, 3])
    })
  },
  {
    title: "shows what was used by day, model, preset and caller, and no cost where a price is not known",
    test: Effect.gen(function* () {
      const owner = yield* Given.newOwner
      const plain = yield* Given.createHeld({ owner })
      const preset = yield* Given.createHeld({ owner, preset: "desk" })
      yield* Given.write(plain, [charged(1, { plans: 1 }), charged(2, { day: "2026-01-03" })], [Given.row(2, "usage")])
      yield* Given.write(
        preset,
        [charged(4, { plans: 1 }), charged(1, { model: "other/model", cost_usd: null })],
        [Given.row(2, "usage")]
      )
      const row = (times: number, plans: number, cost_usd: number | null) => ({
        plans,
        input_tokens: 11 * times,
        cached_input_tokens: 5 * times,
        output_tokens: 7 * times,
        cost_usd
      })
      assert.deepEqual(yield* rowsBy(plain, "day"), [
        { day: today, ...row(6, 2, null) },
        { day: "2026-01-03", ...row(2, 0, 0.0005) }
      ])
      assert.deepEqual(yield* rowsBy(plain, "day", "2026-01-03", "2026-01-03"), [
        { day: "2026-01-03", ...row(2, 0, 0.0005) }
      ])
      assert.deepEqual(yield* rowsBy(plain, "model"), [
        { model: "scripted/model", ...row(7, 2, 0.00175) },
        { model: "other/model", ...row(1, 0, null) }
      ])
      assert.deepEqual(yield* rowsBy(plain, "preset"), [
        { preset: null, ...row(3, 1, 0.00075) },
        { preset: "desk", ...row(5, 1, null) }
      ])
      const mine = { caller: owner, ...row(8, 2, null) }
      assert.deepEqual(yield* rowsBy(plain, "caller"), [mine])
      const all = yield* (yield* OverviewStore).spendings({ from: today, to: "2026-01-03", by: "caller" })
      assert.deepEqual(
        all.find(({ caller }) => caller === owner),
        mine
      )
      assert.deepEqual(yield* rowsBy(yield* Given.createHeld(), "day"), [])
    })
  },
  {
    title: "remembers what deleted plans have used for 400 days",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      const elsewhere = yield* Given.createHeld({ owner: held.plan.caller })
      yield* Given.write(
        held,
        [charged(1, { day: "2024-11-27" }), charged(2, { day: "2024-11-28" }), charged(3, { day: "2025-12-31" })],
        [Given.row(2, "usage")]
      )
      yield* Given.write(elsewhere, [charged(4, { day: "2025-12-31" })], [Given.row(2, "usage")])
      yield* Given.finish(held)
      const sessions = yield* SessionStore
      assert(yield* sessions.delete(held.session_id))
      assert.deepEqual(yield* spent(held, "2024-11-27"), [1, 1])
      const days = Effect.map(rowsBy(held, "day", "2024-01-01"), (rows) => rows.map(({ day }) => day))
      yield* sessions.sweep(Given.at)
      assert.deepEqual(yield* days, ["2024-11-28", "2025-12-31"])
      const before = yield* rowsBy(held, "day")
      // Two replicas have a row each of a day that is over: they become one.
      while (yield* sessions.sweep(Given.at));
      assert.deepEqual(yield* rowsBy(held, "day"), before)
      yield* Given.write(elsewhere, [charged(1, { day: "2025-12-31" })], [Given.row(3, "usage")])
      yield* sessions.sweep(Given.at)
      assert.deepEqual(yield* spent(held, "2025-12-31"), [8, 8])
    })
  }
]
