import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { type EventRow, toFrames } from "@bowline/runtime/unstable/store/EventRow"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Clock, Effect } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

type Content = readonly [event: PlanEvent["event"], payload: string, count?: number]

const run = (from: number, count: number): Content => [
  "text.delta",
  JSON.stringify({
    step: 1,
    attempt: 1,
    deltas: Array.from({ length: count }, (_, index) => `${from + index} \u{1F600} `)
  }),
  count
]

const delta = (text: string): Content => ["text.delta", JSON.stringify({ step: 1, attempt: 1, delta: text })]

/** What plans of every kind have written behind their first event, by what they did. */
const kinds: Readonly<Record<string, ReadonlyArray<Content>>> = {
  "ended at once": [],
  "had one event more": [["done", "{}"]],
  answered: [
    ["step", '{"step":1}'],
    delta("Knots \\u0000 \\ud800"),
    run(0, 40),
    delta(""),
    ["text.retract", '{"step":1,"attempt":1}'],
    ["final", '{"text":"\\"\\n"}'],
    ["done", "{}"]
  ],
  "called tools, and asked": [
    ["task.started", '{"task_id":"1"}'],
    ["approval.requested", '{"task_id":"1"}'],
    ["parked", '{"wakes_at":null}'],
    ["woken", '{"because":"entry"}'],
    ["task.artifact", JSON.stringify({ task_id: "1", text: "x".repeat(100_000) })],
    [
      "task.artifact",
      '{"task_id":"1","parts":[{"type":"file","file_id":"file_01a22155-38c1-72ac-8f75-9b8155c0cc33"}]}'
    ],
    ["task.finished", JSON.stringify({ task_id: "1", result: "x".repeat(100_000) })],
    ["done", "{}"]
  ],
  "told more than a page": Array.from({ length: 3 }, (_, index): Content => [
    "notice",
    JSON.stringify({ index, text: "y".repeat(700_000) })
  ]),
  "had 10,000 events": [
    ...Array.from({ length: 2_500 }, (_, index) => [delta(`${index}`), run(index, 3)]).flat(),
    ["done", "{}"]
  ]
}

const rowsOf = (contents: ReadonlyArray<Content>, startedAt: number): ReadonlyArray<EventRow> => {
  let seq = 2
  return contents.map(([event, payload, count = 1], index) => {
    const row = { seq, at: fromMillis(startedAt + index * 7), count, event, payload }
    seq += count
    return row
  })
}

/** A plan of this kind that has ended now. */
const ended = Effect.fnUntraced(function* (contents: ReadonlyArray<Content>) {
  const at = yield* Clock.currentTimeMillis
  const held = yield* Given.createHeld({ created_at: fromMillis(at) })
  yield* Given.write(held, [Given.settled(Given.completed, fromMillis(at))], rowsOf(contents, at))
  return held
})

/** The frames behind a cursor, as a reader gets them page by page. */
const framesOf = Effect.fnUntraced(function* (stored: Given.Stored, after: number, limit: number) {
  const frames = []
  for (let cursor = after; ;) {
    const page = (yield* Given.eventsOf(stored, cursor, limit)).flatMap(toFrames).filter(({ seq }) => seq > cursor)
    const last = page.at(-1)
    if (last === undefined) return frames
    frames.push(...page)
    cursor = last.seq
  }
})

/** Up to a few dozen all of them, of more some, at the ends and between. */
const cursorsOf = (last: number): ReadonlyArray<number> =>
  Array.from({ length: last + 1 }, (_, seq) => seq).filter(
    (seq) => last < 100 || seq < 2 || seq > last - 2 || seq % 3_331 === 0 || seq === 2_000
  )

export const sealCases: ReadonlyArray<StoreCase> = [
  ...Object.entries(kinds).map(([kind, contents]): StoreCase => ({
    title: `gives every frame of a sealed plan that ${kind} as before, at every cursor`,
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const stored = yield* ended(contents)
      const { length } = yield* framesOf(stored, 0, 500)
      const cursors = cursorsOf(length)
      const read = Effect.forEach(cursors, (cursor) => framesOf(stored, cursor, cursor % 2 === 0 ? 500 : 1_000))
      const before = yield* read
      // It is read while it is sealed, along with another one, and by two at once.
      const other = yield* ended(contents.slice(0, 3))
      const ids = [stored.plan.plan_id, other.plan.plan_id]
      const [meanwhile] = yield* Effect.all([read, store.seal(ids), store.seal(ids)], { concurrency: "unbounded" })
      assert.deepEqual(meanwhile, before)
      assert.deepEqual(yield* read, before)
      yield* store.seal(ids)
      assert.deepEqual(yield* read, before)
      assert.deepEqual(yield* Given.eventsOf(stored, length, 1), [])
    })
  })),
  {
    title: "gives every frame of plans of every kind as before that were sealed at once",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      // Small ones before, between and behind those that are larger than a page.
      const contents = Object.values(kinds).flatMap((one) => [...Object.values(kinds).slice(0, 3), one])
      const plans = yield* Effect.forEach([...contents, []], ended)
      const read = Effect.forEach(plans, (stored) => framesOf(stored, 0, 1_000))
      const before = yield* read
      yield* store.seal(plans.map(({ plan }) => plan.plan_id).toReversed())
      assert.deepEqual(yield* read, before)
    })
  },
  {
    title: "gives what is recorded with the rows of a sealed plan, and texts by their digests, as before",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const at = yield* Clock.currentTimeMillis
      const held = yield* Given.createHeld({ created_at: fromMillis(at) })
      const rows = rowsOf(kinds["answered"] ?? [], at).map((row, index) =>
        index % 2 === 0 ? { ...row, record: JSON.stringify([{ type: "begin", text: `\u0000 \ud800 ${index}` }]) } : row
      )
      yield* Given.write(held, [Given.settled(Given.completed, fromMillis(at))], rows)
      assert.deepEqual(yield* Given.eventsOf(held, 1, 500), rows)
      yield* store.seal([held.plan.plan_id])
      assert.deepEqual(yield* Given.eventsOf(held, 1, 500), rows)
      const digest = held.plan.plan_id
      for (const text of ["Be brief", "Another text of the same digest"]) yield* store.keepText(digest, text)
      assert.deepEqual((yield* store.keptTexts([digest, "none"])).size, 1)
      assert.deepEqual(yield* store.keptTexts([]), new Map())
    })
  },
  {
    title: "seals no plan that is not over",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const held = yield* Given.createHeld({ created_at: fromMillis(yield* Clock.currentTimeMillis) })
      yield* Given.write(held, [], [Given.row(2, "step", '{"step":1}')])
      yield* store.seal([held.plan.plan_id])
      yield* Given.write(held, [], [Given.row(3, "done")])
      assert.deepEqual(
        (yield* Given.eventsOf(held)).map(({ seq }) => seq),
        [1, 2, 3]
      )
    })
  },
  {
    title: "recognises the repeated end of a plan that was sealed before its answer came",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const at = yield* Clock.currentTimeMillis
      const held = yield* Given.createHeld({ created_at: fromMillis(at) })
      const end = Given.commitOf(
        held,
        [Given.settled(Given.completed, fromMillis(at))],
        [Given.row(2, "final"), Given.row(3, "done")]
      )
      assert.deepEqual(yield* store.commit([end]), new Map())
      yield* store.seal([held.plan.plan_id])
      assert.deepEqual(yield* store.commit([end]), new Map())
      const other = { ...end, events: [...end.events, Given.row(4, "done")] }
      assert.deepEqual(yield* store.commit([other]), Given.refused(held.plan.plan_id))
    })
  },
  {
    title: "deletes what is sealed with its session",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const stored = yield* ended(kinds["answered"] ?? [])
      yield* store.seal([stored.plan.plan_id])
      assert.equal(yield* (yield* SessionStore).delete(stored.session_id), true)
      assert.deepEqual(yield* Given.eventsOf(stored), [])
    })
  }
]
