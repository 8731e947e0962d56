import { NotFound } from "@bowline/domain/plan/Refusal"
import * as PlanGist from "@bowline/runtime/unstable/store/PlanGist"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { TaskStore } from "@bowline/runtime/unstable/store/TaskStore"
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const message = { message_id: "message 1", metadata: {} }

/** What a plan may have come to. Its text holds what Postgres cannot store as it is. */
const gist = PlanGist.add(
  PlanGist.upTo(1),
  [
    { event: "step", data: { step: 1, attempt: 1 } },
    { event: "text.delta", data: { step: 1, attempt: 1, delta: "\u0000 \ud800 ü" } }
  ],
  Given.at
)
const stored: unknown = JSON.parse(JSON.stringify(gist))

export const gistCases: ReadonlyArray<StoreCase> = [
  {
    title: "keeps what a plan has come to on its row, for its owner only, until it is told anew",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const owner = yield* Given.newOwner
      const held = yield* Given.createHeld({ owner, echo: { a: 1 } })
      const { plan_id } = held.plan
      const begun = { plan: yield* Given.factsOf(held), gist: { ...PlanGist.upTo(1) }, echo: { a: 1 } }
      assert.deepEqual(yield* store.told(owner, plan_id), begun)
      yield* Given.write(held, [PlanGist.summed(gist)], [Given.row(2, "step")])
      assert.deepEqual((yield* store.told(owner, plan_id)).gist, stored)
      yield* Given.write(held, [], [Given.row(3, "step")])
      assert.deepEqual((yield* store.told(owner, plan_id)).gist, stored)
      yield* Given.write(held, [Given.settled(), PlanGist.summed(undefined)], [Given.row(4, "final")])
      const over = yield* store.told(owner, plan_id)
      assert.deepEqual([over.gist, over.plan.state], [null, "completed"])
      const missing = store.told(yield* Given.newOwner, plan_id)
      assert.deepEqual(yield* Given.failureOf(missing), new NotFound({ what: "plan" }))
    })
  },
  {
    title: "does not keep it where the write is refused",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const held = yield* Given.createHeld()
      const stale = { ...held, guard: { _tag: "Held" as const, fence: held.fence - 1 } }
      const commit = Given.commitOf(held, [PlanGist.summed(gist)], [Given.row(2, "step")])
      const refused = yield* store.commit([{ ...commit, guard: stale.guard }])
      assert.deepEqual(refused, Given.refused(held.plan.plan_id))
      const told = yield* store.told(held.plan.caller, held.plan.plan_id)
      assert.deepEqual(told.gist, { ...PlanGist.upTo(1) })
    })
  },
  {
    title: "gives it to the replica that takes the plan over",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      yield* Given.write(held, [PlanGist.summed(gist), { _tag: "HandedOver" }])
      yield* Given.abandon
      const { abandoned } = yield* Given.takeOver(held, yield* Given.newReplica)
      assert.deepEqual(abandoned.gist, stored)
    })
  },
  {
    title: "tells it of all plans of several tasks at once, the oldest first, for their owner only",
    test: Effect.gen(function* () {
      const tasks = yield* TaskStore
      const owner = yield* Given.newOwner
      const first = yield* Given.createHeld({ owner, task_message: message })
      yield* Given.write(first, [PlanGist.summed(gist)])
      const task_id = first.plan.plan_id
      const later = yield* Given.create({ owner, task_message: { ...message, task_id } })
      const plain = yield* Given.create({ owner })
      yield* Given.create({ owner })
      const told = yield* tasks.told(owner, [task_id, plain.plan.plan_id, later.plan.plan_id])
      const facts = { cancelled_at: null, gist: { ...PlanGist.upTo(1) } }
      const messages = { ...message, task_id }
      assert.deepEqual(told, [
        { ...facts, task_id, plan: yield* Given.factsOf(first), message, gist: stored },
        { ...facts, task_id, plan: yield* Given.factsOf(later), message: messages },
        { ...facts, task_id: plain.plan.plan_id, plan: yield* Given.factsOf(plain), message: null }
      ])
      assert.deepEqual(yield* tasks.told(yield* Given.newOwner, [task_id]), [])
      assert.deepEqual(yield* tasks.told(owner, []), [])
    })
  },
  {
    title:
      "lists plans oldest first, too, from behind one of them, by the model and the metadata that their echoes have",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const owner = yield* Given.newOwner
      const create = (model: string, metadata: Readonly<Record<string, string>>) => {
        const echo = { type: "chat", created: 1, model, metadata }
        return Effect.map(Given.create({ echo, owner }), ({ plan }) => plan.plan_id)
      }
      const odd = { 'a"b': "c\\d.*\u0000", model: "b", desk: "{1}" }
      const [first, second, third] = [
        yield* create("a", { desk: "7" }),
        yield* create("a/b", odd),
        yield* create("a", { desk: "77", type: "chat" })
      ]
      yield* Given.create({ owner })
      const echo = { type: "chat" }
      const list = (filter: Parameters<typeof store.list>[1], page: Partial<Parameters<typeof store.list>[2]> = {}) =>
        Effect.map(store.list(owner, { echo, ...filter }, { limit: 10, ...page }), ({ items, next }) => ({
          ids: items.map(({ plan_id }) => plan_id),
          next
        }))
      const oldestFirst = true
      assert.deepEqual((yield* list({})).ids, [third, second, first])
      assert.deepEqual((yield* list({ behind: second })).ids, [first])
      assert.deepEqual((yield* list({ behind: second }, { oldestFirst })).ids, [third])
      const page = yield* list({}, { oldestFirst, limit: 2 })
      assert.deepEqual(page.ids, [first, second])
      assert.ok(page.next !== null)
      assert.deepEqual(yield* list({}, { oldestFirst, cursor: page.next }), { ids: [third], next: null })

      const found = (asked: { readonly model?: string; readonly metadata?: Readonly<Record<string, string>> }) => {
        const { metadata, ...model } = asked
        const entries = metadata === undefined ? {} : { metadata: Object.entries(metadata) }
        return Effect.map(list({ echo: { ...echo, ...model, ...entries } }), ({ ids }) => ids)
      }
      assert.deepEqual(yield* found({ model: "a" }), [third, first])
      assert.deepEqual(yield* found({ model: "a/b" }), [second])
      assert.deepEqual(yield* found({ model: "b" }), [])
      assert.deepEqual(yield* found({ model: "a", metadata: { desk: "7" } }), [first])
      assert.deepEqual(yield* found({ metadata: { desk: "77", type: "chat" } }), [third])
      assert.deepEqual(yield* found({ metadata: odd }), [second])
      for (const [key, value] of Object.entries({ model: "a", created: "1", toString: "", 'a"b': "c.d" })) {
        assert.deepEqual(yield* found({ metadata: { [key]: value } }), [], key)
      }
    })
  }
]
