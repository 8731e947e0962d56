import type { NewEntry } from "@bowline/domain/plan/Inbox"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { type EventRow, toFrames } from "@bowline/runtime/unstable/store/EventRow"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { type PlanCommit, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Array as Arr, Clock, Config, Effect } from "effect"
import assert from "node:assert/strict"
import { createHash } from "node:crypto"
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
    ["plan", "{}"],
    ["step", '{"step":1}'],
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

/** A plan that has written so, and is parked with the next event: a call waits for a decision. */
const parked = Effect.fnUntraced(function* (contents: ReadonlyArray<Content>) {
  const at = yield* Clock.currentTimeMillis
  const held = yield* Given.createHeld({ created_at: fromMillis(at) })
  const task_id = yield* Given.newTask
  const rows = rowsOf([...contents, ["parked", "{}"]], at)
  yield* Given.write(held, [Given.waitOpened(task_id)], rows.slice(0, -1))
  const parking: PlanCommit = {
    ...Given.commitOf(held, Given.parked(), rows.slice(-1)),
    inbox: { seen: 0, closes: true }
  }
  assert.deepEqual(yield* (yield* PlanStore).commit([parking]), new Map())
  const say = (entry: NewEntry) =>
    Effect.flatMap(Given.accepting(held.plan.plan_id, entry), (accepting) =>
      Effect.flatMap(InboxStore, (inboxes) => inboxes.accept(accepting))
    )
  const decide = say({ type: "decision", task_id, decision: "approve" })
  /** It stays parked, and its readers are told. */
  const hurry = say({ type: "text", text: "Hurry \u0000", when: "boundary", else: "ask" })
  return { decide, hurry, parking, stored: held }
})

const isStep = ({ event }: EventRow) => event === "step"

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

/** How many plans are sealed at once: more show that none is special. */
const many = Effect.orDie(Config.Int("BOWLINE_SEALED_PLANS").pipe(Config.withDefault(25)))

/** What so many plans have written: small ones before, between and behind those that are larger than a page. Of a hundred, one of each kind is at such a place. */
const mixOf = (count: number): ReadonlyArray<ReadonlyArray<Content>> => {
  const all = Object.values(kinds)
  return Array.from({ length: count }, (_, index) => {
    const [place, within] = [Math.floor((index % 100) / 4), index % 4]
    return (within === 3 ? all[place] : undefined) ?? all[index % 3] ?? []
  })
}

/** What tells frames apart, behind every cursor, or from the first one on where there are many. */
const digestsOf = Effect.fnUntraced(function* (stored: Given.Stored) {
  const digest = (frames: unknown) => createHash("sha256").update(JSON.stringify(frames)).digest("base64")
  const all = yield* framesOf(stored, 0, 1_000)
  const behind = cursorsOf(all.length).slice(1, all.length < 100 ? undefined : 1)
  const others = yield* Effect.forEach(behind, (cursor) => framesOf(stored, cursor, cursor % 2 === 0 ? 500 : 1_000))
  return [all, ...others].map(digest)
})

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
      const some = { concurrency: 4 }
      const plans = yield* Effect.forEach(mixOf(yield* many), ended, some)
      const read = Effect.forEach(plans, digestsOf, some)
      const before = yield* read
      const ids = plans.map(({ plan }) => plan.plan_id).toReversed()
      const seal = Effect.forEach(Arr.chunksOf(ids, 100), store.seal)
      const [meanwhile] = yield* Effect.all([read, seal], { concurrency: "unbounded" })
      assert.deepEqual(meanwhile, before)
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
  ...["called tools, and asked", "told more than a page"].map((kind): StoreCase => ({
    title: `goes on with a plan that ${kind}, and waited, as if nothing of it was sealed`,
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const { decide, hurry, parking, stored } = yield* parked(kinds[kind] ?? [])
      const ids = [stored.plan.plan_id]
      let told = 0
      const seal = Effect.gen(function* () {
        const { length } = yield* framesOf(stored, 0, 500)
        assert(length > told)
        told = length
        const read = Effect.forEach(cursorsOf(length), (cursor) => framesOf(stored, cursor, cursor % 2 === 0 ? 500 : 1))
        const before = yield* read
        const [meanwhile] = yield* Effect.all([read, store.seal(ids), store.seal(ids)], { concurrency: "unbounded" })
        assert.deepEqual(meanwhile, before)
        assert.deepEqual(yield* read, before)
      })
      /** The next process gets what it would get of a plan that is not sealed. */
      const takeOver = Effect.gen(function* () {
        const taken = yield* Given.takeOver(stored, yield* Given.newReplica)
        const rows = yield* Given.rowsOf(stored)
        assert.deepEqual(taken.abandoned.tail, rows.slice(Math.max(rows.findLastIndex(isStep), 0)))
        return taken
      })
      yield* seal
      // Its answer was lost.
      assert.deepEqual(yield* store.commit([parking]), new Map())
      yield* hurry
      yield* seal
      yield* hurry
      yield* decide
      const first = yield* takeOver
      yield* Given.write(first, [{ _tag: "Woken" }], [Given.row(told + 2, "woken")])
      yield* Given.abandon
      const again = yield* takeOver
      yield* Given.write(again, [{ _tag: "Held", fence: again.fence }], [Given.row(told + 3, "step")])
      const now = fromMillis(yield* Clock.currentTimeMillis)
      yield* Given.write(again, [Given.settled(Given.completed, now)], [Given.row(told + 4, "done")])
      yield* seal
      assert.deepEqual(yield* Given.eventsOf(stored, told, 1), [])
    })
  })),
  {
    title: "seals no plan that runs",
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
