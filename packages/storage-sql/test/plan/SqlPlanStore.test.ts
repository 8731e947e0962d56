import { ExternalSessionId } from "@bowline/domain/session/Session"
import { type PlanCommit, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import * as Given from "@bowline/testing/unstable/store/Given"
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Option, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import type { SqlError } from "effect/sql/SqlError"
import * as SqlStore from "../../src/SqlStore.ts"
import { migratedDatabase } from "../postgres/freshDatabase.ts"
import { onPostgres, sessionTtl } from "../stores.ts"

const write = (batch: ReadonlyArray<PlanCommit>) => Effect.flatMap(PlanStore, (store) => store.commit(batch))

const done = Given.row(2, "done")

/** Waits until so many statements wait for a lock. */
const untilBlocked = (statements: number) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<{ readonly pid: number }>`
select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  ).pipe(Effect.repeat({ until: (blocked) => blocked.length === statements, schedule: Schedule.spaced("5 millis") }))

/** Runs a statement in a transaction of its own, which stays open until it is told how to end. */
const inOpenTransaction = Effect.fnUntraced(function* (
  statement: (sql: SqlClient.SqlClient) => Effect.Effect<unknown, SqlError>
) {
  const sql = yield* SqlClient.SqlClient
  const connection = yield* sql.reserve
  const run = (text: string) => connection.executeUnprepared(text, [], undefined)
  yield* run("begin")
  yield* Effect.addFinalizer(() => Effect.ignore(run("rollback")))
  yield* Effect.provideService(statement(sql), sql.transactionService, [connection, 0])
  return { commit: run("commit"), rollback: run("rollback") }
})

const secret = { storedRequest: { request: { question: "Why?" }, secrets: "so secret" } }

/** The tables that have the text in a row. */
const tablesWith = Effect.fnUntraced(function* (text: string) {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<{ readonly name: string }>`
select table_name as name from information_schema.tables where table_schema = 'public'`
  const found = yield* Effect.forEach(
    tables,
    ({ name }) => sql<{ readonly name: string }>`
select ${name}::text as name where exists (select from ${sql(name)} t where strpos(t::text, ${text}) > 0)`
  )
  return found.flatMap((rows) => rows.map(({ name }) => name))
})

const onRealClock = { excludeTestServices: true }

layer(onPostgres, onRealClock)("plans on Postgres", (it) => {
  it.effect("are not written by a commit that waited for the fence to grow", () =>
    Effect.gen(function* () {
      const held = yield* Given.createHeld()
      const other = yield* inOpenTransaction(
        (sql) => sql`update sessions set fence = fence + 1 where id = ${held.session_id}`
      )
      const writing = yield* Effect.forkChild(write([Given.commitOf(held, [yield* Given.appended("late")], [done])]))
      yield* untilBlocked(1)
      yield* other.commit
      assert.deepStrictEqual(yield* Fiber.join(writing), Given.refused(held.plan.plan_id))
      assert.deepStrictEqual(yield* (yield* SessionStore).history(held.session_id), [])
      assert.lengthOf(yield* Given.eventsOf(held), 1)
    })
  )

  it.effect("are found when their lease was released under them, and without a lease by who looks at all of them", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const store = yield* PlanStore
      const leases = yield* LeaseStore
      const [released, left, former] = [yield* Given.createHeld(), yield* Given.createHeld(), yield* Given.createHeld()]
      const ids = (plans: ReadonlyArray<Given.Stored>) => plans.map(({ plan }) => plan.plan_id).sort()
      const take = (isThorough: boolean) =>
        Effect.map(store.takeOver("replica_b", Given.ttl, 10_000, [], 10_000, isThorough), (taken) =>
          ids([released, left, former]).filter((id) => taken.some(({ plan }) => plan.plan_id === id))
        )
      yield* leases.renew("replica_b", Given.ttl)
      yield* take(true)
      assert.isFalse((yield* store.abandoned("replica_b")).isAny)
      yield* leases.release(released.session_id, released.fence)
      yield* leases.leave(left.plan.replica)
      // As the version before releases and leaves.
      yield* sql`delete from leases where session_id = ${former.session_id}`
      assert.isTrue((yield* store.abandoned("replica_b")).isAny)
      assert.deepStrictEqual(yield* take(false), ids([released, left]))
      assert.isFalse((yield* store.abandoned("replica_b")).isAny)
      assert.isTrue((yield* store.abandoned("replica_b", true)).isAny)
      assert.deepStrictEqual(yield* take(true), ids([former]))
      // A plan that has ended needs no lease: what is left of one is deleted later.
      const over = yield* Given.createHeld()
      yield* Given.finish(over)
      yield* sql`insert into leases (session_id, replica, fence, expires_at) values (${over.session_id}, '', 1, '-infinity')`
      yield* (yield* SessionStore).sweep("2000-01-01T00:00:00.000Z")
      assert.deepStrictEqual(yield* sql`select from leases where replica = ''`, [])
    })
  )

  it.effect("charge a day once where a commit is repeated before its first try is stored", () =>
    Effect.gen(function* () {
      const held = yield* Given.createHeld()
      const other = yield* inOpenTransaction(
        (sql) => sql`select from sessions where id = ${held.session_id} for update`
      )
      const { usage, cost_usd } = Given.progress
      const charge = { day: "2026-01-02", model: "scripted/model", plans: 1, tool_calls: 3, usage, cost_usd }
      const commit = write([Given.commitOf(held, [{ _tag: "Charged", ...charge }], [Given.row(2, "usage")])])
      const writing = yield* Effect.forkChild(Effect.all([commit, commit], { concurrency: 2 }))
      yield* untilBlocked(2)
      yield* other.commit
      yield* Fiber.join(writing)
      const spent = yield* (yield* PlanStore).spent(held.plan.caller, "2026-01-02")
      assert.deepStrictEqual(spent, { tokens: 18, tool_calls: 3, cost_usd, month_cost_usd: cost_usd })
    })
  )

  it.effect("let no fence grow under a commit that has passed its guard", () =>
    Effect.gen(function* () {
      const stored = yield* Given.create()
      const other = yield* inOpenTransaction(
        (sql) => sql`select from plans where id = ${stored.plan.plan_id} for update`
      )
      const writing = yield* Effect.forkChild(write([Given.commitOf(stored, [], [done])]))
      yield* untilBlocked(1)
      const leases = yield* LeaseStore
      const acquiring = yield* Effect.forkChild(leases.acquire(stored.session_id, "replica_b", Given.ttl))
      yield* untilBlocked(2)
      yield* other.commit
      assert.deepStrictEqual(yield* Fiber.join(writing), new Map())
      assert.deepStrictEqual(yield* Fiber.join(acquiring), Option.some(1))
    })
  )

  it.effect("are not taken over while they are written, and then with what was written last", () =>
    Effect.gen(function* () {
      const store = yield* PlanStore
      const held = yield* Given.createHeld()
      yield* Given.abandon
      const other = yield* inOpenTransaction(
        (sql) =>
          // The same key: whoever comes second waits until it is known whether there is a first.
          sql`insert into events (plan_id, seq, count, event, payload) values (${held.plan.plan_id}, 2, 1, 'done', '{}')`
      )
      const writing = yield* Effect.forkChild(write([Given.commitOf(held, [], [done])]))
      yield* untilBlocked(1)
      const taken = yield* store.takeOver("replica_b", Given.ttl, 10_000)
      assert.notInclude(
        taken.map(({ plan }) => plan.plan_id),
        held.plan.plan_id
      )
      yield* other.rollback
      assert.deepStrictEqual(yield* Fiber.join(writing), new Map())
      assert.deepStrictEqual((yield* Given.takeOver(held, "replica_c")).abandoned.tail.at(-1), done)
    })
  )

  it.effect("are left by a replica whose leases are just being renewed, without a deadlock", () =>
    Effect.gen(function* () {
      const leases = yield* LeaseStore
      const replica = yield* Given.newReplica
      const given = [yield* Given.newPlan({ replica }), yield* Given.newPlan({ replica })]
      // Not in the order in which they are locked.
      const sessions = given
        .map(({ new_session_id }) => new_session_id)
        .toSorted()
        .toReversed()
      const plans = yield* Effect.forEach(sessions, (new_session_id) => Given.createHeld({ replica, new_session_id }))
      const other = yield* inOpenTransaction(
        (sql) => sql`select from leases where session_id = ${sessions[1]} for update`
      )
      const renewing = yield* Effect.forkChild(leases.renew(replica, Given.ttl))
      yield* untilBlocked(1)
      const leaving = yield* Effect.forkChild(leases.leave(replica))
      yield* untilBlocked(2)
      yield* other.rollback
      assert.strictEqual((yield* Fiber.join(renewing)).held.size, 2)
      yield* Fiber.join(leaving)
      const taken = (yield* (yield* PlanStore).takeOver("replica_b", Given.ttl, 10_000)).map(({ plan }) => plan.plan_id)
      assert.includeMembers(
        taken,
        plans.map(({ plan }) => plan.plan_id)
      )
    })
  )

  it.effect("are written in batches of any order without a deadlock", () =>
    Effect.gen(function* () {
      const plans = yield* Effect.all(Array.from({ length: 10 }, () => Given.createHeld()))
      const batch = Effect.forEach(plans, (held) =>
        Effect.map(Given.appended("hello"), (message) => Given.commitOf(held, [message]))
      )
      const refused = yield* Effect.forEach(
        Array.from({ length: 40 }, (_, index) => index),
        (index) => Effect.flatMap(batch, (commits) => write(index % 2 === 0 ? commits : commits.toReversed())),
        { concurrency: 4 }
      )
      assert.deepStrictEqual(
        refused,
        Array.from({ length: 40 }, () => new Map())
      )
      const sessions = yield* SessionStore
      const counts = yield* Effect.forEach(plans, ({ plan, session_id }) => sessions.find(plan.caller, session_id))
      assert.deepStrictEqual(
        counts.map(({ message_count }) => message_count),
        plans.map(() => 40)
      )
    })
  )

  it.effect("are written as a batch, or not at all", () =>
    Effect.gen(function* () {
      const [good, bad] = [yield* Given.createHeld(), yield* Given.createHeld()]
      const before = yield* Effect.all([Given.get(good), Given.eventsOf(good)])
      const message = yield* Given.appended("hello")
      const error = yield* Effect.flip(
        write([
          Given.commitOf(good, [message, Given.settled()], [done]),
          Given.commitOf(bad, [], [Given.row(1, "step"), done])
        ])
      )
      assert.strictEqual(error.reason._tag, "rejected")
      assert.deepStrictEqual(yield* Effect.all([Given.get(good), Given.eventsOf(good)]), before)
      assert.deepStrictEqual(yield* (yield* SessionStore).history(good.session_id), [])
    })
  )

  it.effect("are written once, though a batch is sent again because its answer was lost", () =>
    Effect.gen(function* () {
      const stored = yield* Given.create()
      const fence = yield* Given.acquire(stored.session_id, stored.plan.replica)
      const held = { ...stored, guard: { _tag: "Held" as const, fence } }
      const task = yield* Given.newTask
      const begin = Given.commitOf(held, [
        { _tag: "Held", fence },
        yield* Given.appended("one"),
        Given.started(task, "bob_ask")
      ])
      const go = Given.commitOf(held, [yield* Given.appended("two")], [Given.row(2, "step")])
      const end = Given.commitOf(held, [yield* Given.appended("three"), Given.settled()], [Given.row(3, "done")])
      for (const commit of [begin, begin, go, go, end, end]) {
        assert.deepStrictEqual(yield* write([commit]), new Map())
      }
      assert.strictEqual((yield* Given.get(held)).state, "completed")
      assert.lengthOf(yield* Given.eventsOf(held), 3)
      const sessions = yield* SessionStore
      assert.deepStrictEqual(
        (yield* sessions.history(held.session_id)).map(({ seq }) => seq),
        [1, 2, 3]
      )
      assert.strictEqual((yield* sessions.find(held.plan.caller, held.session_id)).message_count, 3)
    })
  )

  it.effect("keep the secrets of their request until they are over, and nothing else does", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [waiting, running] = [yield* Given.create(secret), yield* Given.createHeld(secret)]
      const columns = sql`
select request, request_secrets from plans where ${sql.in("id", [waiting.plan.plan_id, running.plan.plan_id])}`
      const { request, secrets } = secret.storedRequest
      const kept = { request, request_secrets: secrets }
      yield* Given.write(running, [{ _tag: "Progressed", stage: "tool", progress: Given.progress }])
      assert.deepStrictEqual(yield* columns, [kept, kept])
      assert.deepStrictEqual(yield* tablesWith("so secret"), ["plans"])
      yield* Given.settle(waiting)
      yield* Given.settle(running)
      const none = { request, request_secrets: null }
      assert.deepStrictEqual(yield* columns, [none, none])
      assert.deepStrictEqual(yield* tablesWith("so secret"), [])
    })
  )

  it.effect("do not begin to run with a fence that is not their replica's any more", () =>
    Effect.gen(function* () {
      const stored = yield* Given.create()
      const refused = Given.refused(stored.plan.plan_id)
      const fence = yield* Given.acquire(stored.session_id, "replica_b")
      assert.deepStrictEqual(yield* write([Given.commitOf(stored, [{ _tag: "Held", fence: fence - 1 }])]), refused)
      const guard = { _tag: "Held" as const, fence }
      assert.deepStrictEqual(yield* write([Given.commitOf({ ...stored, guard }, [{ _tag: "Held", fence }])]), refused)
    })
  )
})

/** One of everything that a plan does to its stores. */
const liveThrough = Effect.gen(function* () {
  const store = yield* PlanStore
  const sessions = yield* SessionStore
  const leases = yield* LeaseStore
  const held = yield* Given.createHeld({ external_session_id: yield* Given.newName, agents: [Given.agent("a")] })
  const { caller: owner, plan_id, replica } = held.plan
  const task = yield* Given.newTask
  yield* Given.write(held, [yield* Given.appended("hello"), Given.started(task, "a_ask")], [Given.row(2, "step")])
  yield* Given.write(held, [
    { _tag: "TaskFinished", task_id: task, state: "completed", result: "", error: null, at: Given.at },
    { _tag: "Progressed", stage: "tool", progress: Given.progress }
  ])
  yield* store.requestAbort(plan_id, "cancelled")
  yield* Given.eventsOf(held, 1)
  yield* sessions.history(held.session_id)
  yield* sessions.messages(held.session_id, { limit: 50 })
  yield* sessions.find(owner, held.session_id)
  yield* sessions.list(owner, { limit: 50 })
  yield* store.list(owner, { states: ["running"] }, { limit: 50 })
  yield* store.list(owner, { session: held.session_id }, { limit: 50 })
  yield* leases.renew(replica, Given.ttl)
  yield* Given.finish(held)
  yield* Given.get(held)
})

describe("the stores on Postgres", () => {
  it.live("are unavailable when their connection breaks, in a statement or in a transaction, and come back", () =>
    Effect.gen(function* () {
      const url = yield* migratedDatabase
      const observer = yield* Layer.build(PgClient.layer({ url }))
      const stores = yield* Layer.build(SqlStore.layerPostgres({ url, maxConnections: 1, sessionTtl }))
      yield* Effect.gen(function* () {
        const held = yield* Given.createHeld()
        const { caller: owner } = held.plan
        const external_session_id = ExternalSessionId.make(held.session_id)
        const attempts = [
          Effect.asVoid(write([Given.commitOf(held, [yield* Given.appended("hello")])])),
          Effect.asVoid(Given.create({ owner, external_session_id }))
        ]
        for (const attempt of attempts) {
          const error = yield* Effect.gen(function* () {
            const sql = yield* SqlClient.SqlClient
            const other = yield* inOpenTransaction(
              () => sql`select from sessions where id = ${held.session_id} for update`
            )
            const writing = yield* Effect.forkChild(Given.failureOf(attempt))
            for (const { pid } of yield* untilBlocked(1)) yield* sql`select pg_terminate_backend(${pid})`
            const error = yield* Fiber.join(writing)
            yield* other.commit
            return error
          }).pipe(Effect.provide(observer), Effect.scoped)
          assert.strictEqual(error?._tag === "StorageError" ? error.reason._tag : error?._tag, "unavailable")
          assert.isTrue(yield* (yield* PlanStore).isWritable)
        }
      }).pipe(Effect.provide(stores))
    }).pipe(Effect.scoped)
  )

  it.live("are unavailable when there is no server", () =>
    Effect.gen(function* () {
      const url = Redacted.make("postgres://bowline@127.0.0.1:1/bowline")
      const error = yield* Effect.flip(Layer.build(SqlStore.layerPostgres({ url, maxConnections: 1, sessionTtl })))
      assert.strictEqual(error._tag === "StorageError" ? error.reason._tag : error._tag, "unavailable")
    }).pipe(Effect.scoped)
  )

  it.live("read no table from end to end, though the database planned the statements when they were empty", () =>
    Effect.gen(function* () {
      const url = yield* migratedDatabase
      const stores = SqlStore.layerNoDeps({ sessionTtl, isShared: true }).pipe(
        Layer.provideMerge(PgClient.layer({ url, maxConnections: 1 }))
      )
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const tables = ["sessions", "session_agents", "plans", "messages", "tasks", "events"]
        // The server looks at tables once a minute. Then it knows that these are small.
        for (const table of tables) yield* sql`alter table ${sql(table)} set (autovacuum_enabled = false)`
        const scans = Effect.andThen(
          sql`select pg_stat_force_next_flush()`,
          sql`select relname, seq_scan from pg_stat_user_tables where ${sql.in("relname", tables)} order by relname`
        )
        const before = yield* scans
        yield* Effect.repeat(liveThrough, { times: 20 })
        assert.deepStrictEqual(yield* scans, before)

        // Nobody streams, all is sealed, and the server knows that there is no event: a search of no page is the cheapest.
        yield* sql`delete from events`
        yield* sql`vacuum analyze events`
        const held = yield* Given.createHeld()
        const streaming = yield* scans
        for (let seq = 2; seq < 22; seq++) yield* Given.write(held, [], [Given.row(seq, "text.delta")])
        assert.deepStrictEqual(yield* scans, streaming)
      }).pipe(Effect.provide(stores))
    }).pipe(Effect.scoped)
  )

  it.live("take a plan over without reading its events from before its last step", () =>
    Effect.gen(function* () {
      const url = yield* migratedDatabase
      const stores = SqlStore.layerNoDeps({ sessionTtl, isShared: true }).pipe(
        Layer.provideMerge(PgClient.layer({ url, maxConnections: 1 }))
      )
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const store = yield* PlanStore
        const take = Effect.map(store.takeOver("replica_b", Given.ttl, 10_000), (taken) =>
          taken.map(({ tail }) => tail.map(({ seq }) => seq))
        )
        const rowsRead = Effect.andThen(
          sql`select pg_stat_force_next_flush()`,
          sql<{ readonly rows: number }>`
select (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_user_tables where relname = 'events'`
        ).pipe(Effect.map(([events]) => events?.rows ?? 0))
        // Without what the database knows of the events, and with it.
        for (const prepare of [sql`select 1`, sql`analyze events`]) {
          const held = yield* Given.createHeld()
          yield* sql`
insert into events (plan_id, seq, count, event, payload)
select ${held.plan.plan_id}, seq, 1, case when seq in (2, 9000) then 'step' else 'text.delta' end, '{}'
from generate_series(2, 9010) seq`
          yield* prepare
          yield* (yield* LeaseStore).release(held.session_id, held.fence)
          const before = yield* rowsRead
          assert.deepStrictEqual(yield* take, [Array.from({ length: 11 }, (_, index) => 9000 + index)])
          assert.isBelow((yield* rowsRead) - before, 100)
        }
      }).pipe(Effect.provide(stores))
    }).pipe(Effect.scoped)
  )
})
