import type { NewEntry } from "@bowline/domain/plan/Inbox"
import type { EventRow } from "@bowline/runtime/unstable/store/EventRow"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import * as Given from "@bowline/testing/unstable/store/Given"
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber, type Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { pack } from "../../src/plan/SealedEvents.ts"
import { makeWeeks } from "../../src/plan/internal/SealedWeeks.ts"
import { writeSealed } from "../../src/plan/internal/SealPlans.ts"
import { onEmbedded, onPostgres } from "../stores.ts"

const now = Effect.map(Clock.currentTimeMillis, fromMillis)

const text = "A bowline is the knot that holds under any load and never jams. "

/** A plan that ended so long ago, with some events. */
const endedBefore = Effect.fnUntraced(function* (age: Duration.Input) {
  const at = (yield* Clock.currentTimeMillis) - Duration.toMillis(Duration.fromInputUnsafe(age))
  const held = yield* Given.createHeld({ created_at: fromMillis(at) })
  const events = [
    ...Array.from({ length: 30 }, (_, index) =>
      Given.row(index + 2, "text.delta", JSON.stringify({ step: 1, attempt: 1, delta: text.slice(index, index + 5) }))
    ),
    Given.row(32, "final"),
    Given.row(33, "done")
  ]
  yield* Given.write(held, [Given.settled(Given.completed, fromMillis(at))], events)
  return held
})

/** A plan that waits for a decision, with two steps behind it. */
const parkedNow = Effect.gen(function* () {
  const held = yield* Given.createHeld({ created_at: yield* now })
  const task_id = yield* Given.newTask
  const events = [Given.row(2, "step"), Given.row(3, "text.delta", "{}", 4), Given.row(7, "approval.requested")]
  yield* Given.write(held, [Given.waitOpened(task_id), ...Given.parked()], events)
  const say = (entry: NewEntry) =>
    Effect.flatMap(Given.accepting(held.plan.plan_id, entry), (accepting) =>
      Effect.flatMap(InboxStore, (inboxes) => inboxes.accept(accepting))
    )
  return {
    held,
    decide: say({ type: "decision", task_id, decision: "approve" }),
    hurry: say({ type: "text", text: "Hurry", when: "boundary", else: "ask" })
  }
})

interface Kept {
  readonly live: number
  readonly sealed: number
}

/** The rows that hold the events of a plan. */
const keptOf = Effect.fnUntraced(function* ({ plan: { plan_id } }: Given.Stored) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<Kept>`
select (select count(*)::int from events where plan_id = ${plan_id}) as live,
  (select count(*)::int from sealed where plan_id = ${plan_id}) as sealed`
  return row
})
const live: Kept = { live: 33, sealed: 0 }
const sealed: Kept = { live: 0, sealed: 1 }

/** Sweeps until nothing is left to do. */
const sweep = Effect.gen(function* () {
  const store = yield* PlanStore
  yield* Effect.repeat(store.sealLeft(yield* now), { while: (isMore) => isMore })
})

const weeks = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<{ readonly name: string; readonly rows: number }>`
select c.relname as name, (select count(*)::int from sealed s where s.tableoid = c.oid) as rows
from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'sealed'::regclass order by 1`
)

type Stores = Layer.Success<typeof onPostgres>

/** What also holds on an embedded Postgres. All have one: it takes its time to start. */
const alsoEmbedded: Array<{ readonly title: string; readonly test: Effect.Effect<void, never, Stores> }> = []

const onBoth = <E>(title: string, test: Effect.Effect<void, E, Stores>) => {
  it.live(title, () => Effect.provide(test, onPostgres))
  alsoEmbedded.push({ title, test: Effect.orDie(test) })
}

/** As if nothing had been stored. */
const clear = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  for (const { name } of yield* weeks) yield* sql`drop table ${sql(name)}`
  yield* sql`truncate sessions, plans, events, deleted_plans, replicas cascade`
})

describe("a plan that is over", () => {
  onBoth(
    "is one row, in the week of its end",
    Effect.gen(function* () {
      const store = yield* PlanStore
      const plans = [yield* endedBefore("0 seconds"), yield* endedBefore("8 days"), yield* endedBefore("8 days")]
      for (const plan of plans) assert.deepStrictEqual(yield* keptOf(plan), live)
      yield* store.seal(plans.map(({ plan }) => plan.plan_id))
      for (const plan of plans) assert.deepStrictEqual(yield* keptOf(plan), sealed)
      assert.deepStrictEqual(
        (yield* weeks).map(({ rows }) => rows),
        [2, 1]
      )
    })
  )

  onBoth(
    "is sealed by a sweep where its process did not, and none is left out",
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const running = yield* Given.createHeld()
      const fresh = yield* endedBefore("1 second")
      const left = yield* Effect.forEach(Array.from({ length: 60 }), () => endedBefore("1 hour"))
      // An early version stored events without their time.
      yield* sql`update events set at = null where plan_id = ${left[0]?.plan.plan_id ?? ""}`
      const before = yield* Effect.forEach(left, (plan) => Given.eventsOf(plan))
      yield* sweep
      assert.deepStrictEqual(yield* Effect.forEach(left, (plan) => Given.eventsOf(plan)), before)
      for (const plan of left) assert.deepStrictEqual(yield* keptOf(plan), sealed)
      assert.deepStrictEqual(yield* keptOf(fresh), live)
      assert.deepStrictEqual(yield* keptOf(running), { live: 1, sealed: 0 })
      // The next sweep begins with the first one again.
      const later = yield* endedBefore("1 hour")
      yield* sweep
      assert.deepStrictEqual(yield* keptOf(later), sealed)
    })
  )

  onBoth(
    "stays as it is while a replica lives that cannot read it otherwise",
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const store = yield* PlanStore
      const plan = yield* endedBefore("1 hour")
      yield* sql`
insert into replicas (id, expires_at, parks, seals, seals_waits) values ('replica_old', now() + interval '1 minute', true, true, true)`
      yield* store.seal([plan.plan.plan_id])
      yield* sweep
      assert.deepStrictEqual(yield* keptOf(plan), live)
      yield* sql`update replicas set expires_at = now() where id = 'replica_old'`
      yield* sweep
      assert.deepStrictEqual(yield* keptOf(plan), sealed)
    })
  )

  onBoth(
    "loses its events with a whole week, and is then as one without events",
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const store = yield* PlanStore
      const [old, kept] = [yield* endedBefore("29 days"), yield* endedBefore("1 minute")]
      yield* store.seal([old.plan.plan_id, kept.plan.plan_id])
      assert.strictEqual((yield* Given.eventsOf(old)).length, 33)
      // As it is ten days later.
      yield* sql`update plans set finished_at = finished_at - interval '10 days' where id = ${old.plan.plan_id}`
      assert.deepStrictEqual(yield* Given.eventsOf(old), [])
      const before = yield* weeks
      yield* store.sealLeft(fromMillis((yield* Clock.currentTimeMillis) + Duration.toMillis(Duration.days(9))))
      assert.deepStrictEqual(yield* weeks, before.slice(-1))
      assert.strictEqual((yield* Given.eventsOf(kept)).length, 33)
      assert.strictEqual((yield* Given.get(old)).state, "completed")
    })
  )

  onBoth(
    "that ended before its events would be kept is not sealed any more: they go",
    Effect.gen(function* () {
      const plan = yield* endedBefore("31 days")
      yield* sweep
      assert.deepStrictEqual(yield* keptOf(plan), { live: 0, sealed: 0 })
      assert.deepStrictEqual(yield* weeks, [])
      assert.strictEqual((yield* Given.get(plan)).state, "completed")
    })
  )

  onBoth(
    "is deleted with its session, whatever it is sealed in",
    Effect.gen(function* () {
      const store = yield* PlanStore
      const sessions = yield* SessionStore
      const [plan, other] = [yield* endedBefore("8 days"), yield* endedBefore("8 days")]
      yield* store.seal([plan.plan.plan_id, other.plan.plan_id])
      yield* sessions.delete(plan.session_id)
      assert.deepStrictEqual(yield* keptOf(plan), { live: 0, sealed: 0 })
      assert.deepStrictEqual(yield* keptOf(other), sealed)
    })
  )
})

describe("a plan that waits", () => {
  onBoth(
    "is sealed up to there, also when it is told something, and becomes one row in the week of its end",
    Effect.gen(function* () {
      const store = yield* PlanStore
      const { decide, held, hurry } = yield* parkedNow
      assert.deepStrictEqual(yield* keptOf(held), { live: 4, sealed: 0 })
      yield* store.seal([held.plan.plan_id])
      assert.deepStrictEqual(yield* keptOf(held), { live: 0, sealed: 1 })
      yield* hurry
      assert.deepStrictEqual(yield* keptOf(held), { live: 1, sealed: 1 })
      yield* sweep
      assert.deepStrictEqual(yield* keptOf(held), { live: 0, sealed: 1 })
      yield* hurry
      yield* decide
      // It runs: what is stored of it meanwhile stays as it is.
      yield* store.seal([held.plan.plan_id])
      assert.deepStrictEqual(yield* keptOf(held), { live: 1, sealed: 1 })
      const taken = yield* Given.takeOver(held, yield* Given.newReplica)
      yield* Given.write(taken, [Given.settled(Given.completed, yield* now)], [Given.row(10, "done")])
      const before = yield* Given.rowsOf(held)
      yield* store.seal([held.plan.plan_id])
      assert.deepStrictEqual(yield* keptOf(held), { live: 0, sealed: 1 })
      assert.deepStrictEqual(
        (yield* weeks).map(({ name, rows }) => [name === "sealed_open", rows]),
        [
          [false, 1],
          [true, 0]
        ]
      )
      assert.deepStrictEqual(
        before.map(({ seq }) => seq),
        [1, 2, 3, 7, 8, 9, 10]
      )
      assert.deepStrictEqual(yield* Given.rowsOf(held), before)
    })
  )

  it.live(
    "keeps what is sealed as long as it waits, stays as it is while a replica lives that cannot read that, and goes with its events",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const store = yield* PlanStore
        const { decide, held } = yield* parkedNow
        yield* sql`
insert into replicas (id, expires_at, parks, seals, seals_waits) values ('replica_old', now() + interval '1 minute', true, true, true)`
        yield* store.seal([held.plan.plan_id])
        yield* sweep
        assert.deepStrictEqual(yield* keptOf(held), { live: 4, sealed: 0 })
        yield* sql`update replicas set expires_at = now() where id = 'replica_old'`
        yield* sweep
        assert.deepStrictEqual(yield* keptOf(held), { live: 0, sealed: 1 })
        const later = (yield* Clock.currentTimeMillis) + Duration.toMillis(Duration.days(400))
        yield* store.sealLeft(fromMillis(later))
        assert.lengthOf(yield* Given.eventsOf(held), 4)
        yield* decide
        const taken = yield* Given.takeOver(held, yield* Given.newReplica)
        const ended = fromMillis((yield* Clock.currentTimeMillis) - Duration.toMillis(Duration.days(31)))
        yield* Given.write(taken, [Given.settled(Given.completed, ended)], [Given.row(8, "done")])
        yield* sweep
        assert.deepStrictEqual(yield* keptOf(held), { live: 0, sealed: 0 })
      }).pipe(Effect.provide(onPostgres))
  )

  it.live("is sealed once by two that have read the same rows, and loses nothing that came meanwhile", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [{ held, hurry }, { held: late }] = [yield* parkedNow, yield* parkedNow]
      // Of many that find no table at once, one makes it.
      const makeTables = makeWeeks(sql, [null, new Date(0)])
      yield* Effect.all(
        Array.from({ length: 4 }, () => makeTables),
        { concurrency: "unbounded" }
      )
      const seal = ({ plan: { plan_id } }: Given.Stored, rows: ReadonlyArray<EventRow>, last: number) => {
        const body = pack(rows)
        const first_seq = rows[0]?.seq ?? 0
        const ends = [body.length]
        return writeSealed(sql, [{ plan_id, finished_at: null, first_seq, last_seqs: [last], ends, body: [body] }])
      }
      const first = yield* Given.eventsOf(held)
      yield* hurry
      yield* seal(held, first, 7)
      assert.deepStrictEqual(yield* keptOf(held), { live: 1, sealed: 1 })
      const all = yield* Given.rowsOf(held)
      for (const [rows, last] of [
        [first, 7],
        [all, 8],
        [all.slice(4), 8],
        [all.slice(4), 8],
        [all, 8]
      ] as const) {
        yield* seal(held, rows, last)
        assert.deepStrictEqual(yield* Given.rowsOf(held), all)
      }
      assert.deepStrictEqual(yield* keptOf(held), { live: 0, sealed: 1 })
      // It has ended since it was read.
      const read = yield* Given.eventsOf(late)
      yield* sql`update plans set state = 'completed', finished_at = now() where id = ${late.plan.plan_id}`
      yield* seal(late, read, 7)
      assert.deepStrictEqual(yield* keptOf(late), { live: 4, sealed: 0 })
    }).pipe(Effect.provide(onPostgres))
  )
})

describe("a sealing that dies", () => {
  it.live("between the row that it writes and the rows that it deletes leaves all as it was", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const store = yield* PlanStore
      const plan = yield* endedBefore("1 hour")
      const before = yield* Given.eventsOf(plan)
      // It waits for the lock of the last row that it deletes: all others are deleted, and the sealed row is written.
      const holder = yield* sql.reserve
      const run = (statement: string) => holder.executeUnprepared(statement, [], undefined)
      yield* run("begin")
      yield* run(`select from events where plan_id = '${plan.plan.plan_id}' and seq = 33 for update`)
      const sealing = yield* Effect.forkChild(Effect.exit(store.seal([plan.plan.plan_id])))
      const [blocked] = yield* Effect.repeat(
        sql<{ readonly pid: number }>`
select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%into sealed%'`,
        { until: (rows) => rows.length > 0, schedule: Schedule.spaced("5 millis") }
      )
      assert.deepStrictEqual(yield* Given.eventsOf(plan), before)
      yield* sql`select pg_terminate_backend(${blocked?.pid ?? 0})`
      yield* Fiber.await(sealing)
      yield* run("rollback")
      assert.deepStrictEqual(yield* keptOf(plan), live)
      assert.deepStrictEqual(yield* Given.eventsOf(plan), before)
      yield* store.seal([plan.plan.plan_id])
      assert.deepStrictEqual(yield* keptOf(plan), sealed)
      assert.deepStrictEqual(yield* Given.eventsOf(plan), before)
    }).pipe(Effect.scoped, Effect.provide(onPostgres))
  )
})

layer(onEmbedded, { excludeTestServices: true })("on an embedded Postgres, a plan", (it) => {
  for (const { title, test } of alsoEmbedded) it.effect(title, () => Effect.andThen(clear, test))
})
