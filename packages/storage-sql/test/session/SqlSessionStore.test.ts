import { MessageId } from "@bowline/domain/session/Message"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { type PlanChange, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import * as Given from "@bowline/testing/unstable/store/Given"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { onPostgres } from "../stores.ts"

const appendMany = Effect.fnUntraced(function* (held: Given.Stored, count: number) {
  const uuid = yield* UuidGenerator
  const changes = Array.from({ length: count }, (_, index): PlanChange => ({
    _tag: "MessageAppended",
    message: {
      message_id: MessageId.make(`msg_${uuid()}`),
      role: index % 2 === 0 ? "user" : "assistant",
      parts: [{ type: "text", text: String(index + 1) }]
    },
    at: Given.at
  }))
  yield* Given.write(held, changes)
})

const insertEvents = Effect.fnUntraced(function* ({ plan_id }: Given.Stored["plan"], count: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
insert into events (plan_id, seq, count, event, payload)
select ${plan_id}, seq, 1, 'step', '{}' from generate_series(2, ${count + 1}) seq`
})

/** As many plans of the same session that are over, too. */
const insertPlans = Effect.fnUntraced(function* ({ plan }: Given.Stored, count: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
insert into plans (id, session_id, owner, replica, state, model, question_hash, preferences, metadata, route, usage, created_at, deadline_at)
select 'plan_' || gen_random_uuid(), session_id, owner, replica, state, model, question_hash, preferences, metadata, route,
  usage, created_at, deadline_at
from plans, generate_series(1, ${count}::int) where id = ${plan.plan_id}`
})

/** Rows of a table that belong to the plan. */
const rowsOf = Effect.fnUntraced(function* (table: string, { plan_id }: Given.Stored["plan"]) {
  const sql = yield* SqlClient.SqlClient
  const column = table === "deleted_plans" || table === "plans" ? "id" : "plan_id"
  const [row] = yield* sql<{ readonly count: number }>`
select count(*)::int as count from ${sql(table)} where ${sql(column)} = ${plan_id}`
  return row?.count
})

const expired = "2027-01-01T00:00:00.000Z"

layer(onPostgres, { excludeTestServices: true })("sessions on Postgres", (it) => {
  it.effect("give all of 10,000 messages, page by page, and to a prompt", () =>
    Effect.gen(function* () {
      const sessions = yield* SessionStore
      const held = yield* Given.createHeld()
      yield* appendMany(held, 10_000)
      const seqs: Array<number> = []
      for (let cursor: number | null = 0; cursor !== null;) {
        const page: Effect.Success<ReturnType<typeof sessions.messages>> = yield* sessions.messages(held.session_id, {
          limit: 200,
          cursor
        })
        seqs.push(...page.items.map(({ seq }) => seq))
        cursor = page.next
      }
      assert.deepStrictEqual(
        seqs,
        Array.from({ length: 10_000 }, (_, index) => index + 1)
      )
      assert.lengthOf(yield* sessions.history(held.session_id), 10_000)
      assert.strictEqual((yield* sessions.find(held.plan.caller, held.session_id)).message_count, 10_000)
    })
  )

  it.effect("leave no row behind when they are deleted, however many events there are", () =>
    Effect.gen(function* () {
      const held = yield* Given.createHeld({ agents: [Given.agent("a")], prior_summary: "before" })
      yield* Given.write(held, [yield* Given.appended("one"), Given.started(yield* Given.newTask, "tool")])
      yield* Given.settle(held)
      yield* insertEvents(held.plan, 12_000)
      assert.strictEqual(yield* (yield* SessionStore).delete(held.session_id), true)
      for (const table of ["events", "deleted_plans", "plans", "tasks", "messages"]) {
        assert.strictEqual(yield* rowsOf(table, held.plan), 0, table)
      }
      const sql = yield* SqlClient.SqlClient
      for (const table of ["session_agents", "prior_summaries", "leases", "messages"]) {
        assert.deepStrictEqual(yield* sql`select 1 from ${sql(table)} where session_id = ${held.session_id}`, [], table)
      }
    })
  )

  it.effect("leave what is too much for one deletion to the sweep", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const sessions = yield* SessionStore
      const held = yield* Given.createHeld()
      yield* Given.settle(held)
      yield* insertPlans(held, 40_000)
      assert.strictEqual(yield* sessions.delete(held.session_id), true)
      assert.strictEqual((yield* Given.failureOf(Given.get(held)))?._tag, "NotFound")
      const left = sql<{ readonly count: number }>`select count(*)::int as count from deleted_plans`.pipe(
        Effect.map(([row]) => row?.count ?? 0)
      )
      const before = yield* left
      assert.isAbove(before, 0)
      assert.isBelow(before, 40_000)
      assert.strictEqual(yield* sessions.sweep(Given.at), true)
      assert.isBelow(yield* left, before)
      yield* sql`delete from deleted_plans`
    })
  )

  it.effect("are swept with their events a batch at a time, also those that a deletion has left when it died", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const sessions = yield* SessionStore
      const held = yield* Given.createHeld()
      yield* Given.finish(held)
      const left = yield* Given.createHeld()
      yield* insertEvents(held.plan, 12_000)
      yield* insertEvents(left.plan, 10)
      yield* sql`insert into deleted_plans (id) values (${left.plan.plan_id})`
      yield* sql`delete from sessions where id = ${left.session_id}`
      const counts: Array<number | undefined> = []
      while (yield* sessions.sweep(expired)) counts.push(yield* rowsOf("events", held.plan))
      assert.deepStrictEqual(counts, [12_001, 7_001, 2_001, 0])
      assert.strictEqual(yield* rowsOf("events", left.plan), 0)
      assert.deepStrictEqual(yield* sql`select 1 from deleted_plans`, [])
    })
  )

  it.effect("are swept by one of many replicas that come at once", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const sessions = yield* SessionStore
      const held = yield* Given.createHeld()
      yield* Given.finish(held)
      yield* Effect.scoped(
        Effect.gen(function* () {
          const replica = yield* sql.reserve
          const run = (text: string) => replica.executeUnprepared(text, [], undefined)
          yield* run("begin")
          yield* Effect.addFinalizer(() => Effect.orDie(run("rollback")))
          yield* run("select pg_advisory_xact_lock(hashtextextended('bowline/sweep', 0))")
          assert.strictEqual(yield* sessions.sweep(expired), false)
        })
      )
      assert.strictEqual((yield* sessions.find(held.plan.caller, held.session_id)).session_id, held.session_id)
      assert.strictEqual(yield* sessions.sweep(expired), true)
    })
  )

  it.effect(
    "find what peers have handed back among 50,000 calls, though the database expects a few",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const insertCalls = (held: Given.Stored, count: number, kept: number) => sql`
insert into tasks (plan_id, id, tool, kind, agent, endpoint, skill, input, state, remote_task_id, started_at, reverted)
select ${held.plan.plan_id}, n, 'tool', 'peer', 'bob', 'http://bob.test/', 'ask', '{}', 'input-required', n, now(), n > ${kept}
from generate_series(1, ${count}) n`
        yield* sql`alter table tasks set (autovacuum_enabled = false)`
        for (let others = 0; others < 50; others++) yield* insertCalls(yield* Given.createHeld(), 20, 20)
        yield* sql`analyze tasks`
        const held = yield* Given.createHeld()
        yield* insertCalls(held, 50_000, 25_000)
        const [waiting, ...more] = yield* (yield* SessionStore).handedBack(held.session_id)
        assert.deepStrictEqual([waiting?.remote_task_id, more], ["25000", []])
      }),
    // A row of them takes no time; each with each takes a minute.
    20_000
  )

  it.effect("store a compaction of a plan once, though its answer was lost and it is sent again", () =>
    Effect.gen(function* () {
      const store = yield* PlanStore
      const sessions = yield* SessionStore
      const held = yield* Given.createHeld()
      yield* appendMany(held, 3)
      const [, second] = yield* sessions.history(held.session_id)
      assert.isDefined(second)
      const compaction = { id: "c", summary: "all", through: second.message_id, covered_seq: 0, prior_seq: 0 }
      const commit = Given.commitOf(held, [{ _tag: "Compacted", compaction }], [Given.row(2, "usage")])
      for (let tried = 0; tried < 2; tried++) assert.deepStrictEqual(yield* store.commit([commit]), new Map())
      assert.lengthOf(yield* Given.eventsOf(held), 2)
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(
        yield* sql`select seq, compacted_by from messages where session_id = ${held.session_id} order by seq`,
        [
          { seq: 1, compacted_by: "c" },
          { seq: 2, compacted_by: "c" },
          { seq: 3, compacted_by: null }
        ]
      )
    })
  )
})
