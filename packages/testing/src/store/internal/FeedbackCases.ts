import { CallerName } from "@bowline/domain/caller/CallerName"
import type { Feedback } from "@bowline/domain/unstable/plan/Feedback"
import { FeedbackStore } from "@bowline/runtime/unstable/store/FeedbackStore"
import { type PlanFilter, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { Effect, Result } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const admin = CallerName.make("root")

const said = (given: Given.Stored, score: number, more: Partial<Feedback> = {}): Feedback => ({
  plan_id: given.plan.plan_id,
  caller: given.plan.caller,
  score,
  comment: null,
  labels: [],
  at: Given.at,
  ...more
})

export const feedbackCases: ReadonlyArray<StoreCase> = [
  {
    title: "keeps the last feedback of each caller, and shows it to the owner of the plan",
    test: Effect.gen(function* () {
      const store = yield* FeedbackStore
      const given = yield* Given.create()
      const { caller, plan_id } = given.plan
      assert.deepEqual(yield* store.list(caller, plan_id), [])
      yield* store.give(caller, said(given, -1, { comment: "Wrong \u0000", labels: ["a", 'b "c", {d}'] }))
      yield* store.give(undefined, said(given, 0.5, { caller: admin, at: Given.later }))
      const bad = said(given, -1, { labels: ["a", 'b "c", {d}'] })
      const good = said(given, 0.5, { caller: admin, at: Given.later })
      const [first, second = assert.fail()] = yield* store.list(caller, plan_id)
      assert.deepEqual([first, { ...second, comment: null }], [good, bad])
      assert.match(second.comment ?? "", /^Wrong /)
      // The clock of its replica may be behind: what counts is which was stored last.
      const again = said(given, 0, { comment: "", at: "1970-01-01T00:00:00.000Z" })
      yield* store.give(caller, again)
      assert.deepEqual(yield* store.list(undefined, plan_id), [again, good])
    })
  },
  {
    title: "finds no plan of another owner to say something of",
    test: Effect.gen(function* () {
      const store = yield* FeedbackStore
      const given = yield* Given.create()
      const other = yield* Given.newOwner
      const { plan_id } = given.plan
      const isRefused = <A, E>(asked: Effect.Effect<A, E>) => Effect.map(Effect.result(asked), Result.isFailure)
      assert.equal(yield* isRefused(store.give(other, said(given, 1))), true)
      assert.equal(yield* isRefused(store.list(other, plan_id)), true)
      assert.deepEqual(yield* store.list(undefined, plan_id), [])
    })
  },
  {
    title: "lists the plans by the feedback that anybody has given last",
    test: Effect.gen(function* () {
      const store = yield* FeedbackStore
      const plans = yield* PlanStore
      const owner = yield* Given.newOwner
      const [none, bad, good, neither] = yield* Effect.all([
        Given.create({ owner }),
        Given.create({ owner }),
        Given.create({ owner }),
        Given.create({ owner })
      ])
      yield* store.give(owner, said(bad, 1, { labels: ["slow"] }))
      yield* store.give(undefined, said(bad, -0.1, { caller: admin, labels: ["wrong", 'tool"}'] }))
      yield* store.give(undefined, said(good, -1, { caller: admin, labels: ["wrong"] }))
      yield* store.give(owner, said(good, 1, { labels: ["slow"] }))
      yield* store.give(owner, said(neither, 0))
      const found = (filter: PlanFilter) =>
        Effect.map(plans.list(owner, filter, { limit: 10 }), ({ items }) => items.map(({ plan_id }) => plan_id))
      const [a, b, c] = [none.plan.plan_id, bad.plan.plan_id, good.plan.plan_id]
      assert.deepEqual(yield* found({ feedback: "none" }), [a])
      assert.deepEqual(yield* found({ feedback: "negative" }), [b])
      assert.deepEqual(yield* found({ feedback: "positive" }), [c])
      assert.deepEqual(yield* found({ label: "wrong" }), [b])
      assert.deepEqual(yield* found({ label: 'tool"}' }), [b])
      assert.deepEqual(yield* found({ label: "slow" }), [c])
      assert.deepEqual(yield* found({ label: "slow\u0000" }), [])
      assert.deepEqual(yield* found({ label: "slow", feedback: "negative" }), [])
    })
  }
]
