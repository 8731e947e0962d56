import type { StorageError } from "@bowline/domain/storage/StorageError"
import { type PlanCommit, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import type { LeaseLost } from "@bowline/runtime/unstable/store/LeaseStore"
import { type Compaction, SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import * as Given from "@bowline/testing/unstable/store/Given"
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import * as Publisher from "../../src/notice/Publisher.ts"
import * as SqlPlanStore from "../../src/plan/SqlPlanStore.ts"
import * as SqlSessionStore from "../../src/session/SqlSessionStore.ts"
import * as SqlStore from "../../src/SqlStore.ts"
import { type Break, cutWire } from "../postgres/cutWire.ts"
import { migratedDatabase } from "../postgres/freshDatabase.ts"
import { sessionTtl } from "../stores.ts"

/** A session of four messages of which the first is compacted, and the compaction of two more. */
const prepare = Effect.gen(function* () {
  const sessions = yield* SessionStore
  const held = yield* Given.createHeld({ prior_summary: "before" })
  for (const text of ["one", "two", "three", "four"]) yield* Given.write(held, [yield* Given.appended(text)])
  const [first, , third] = yield* sessions.history(held.session_id)
  if (first === undefined || third === undefined) return assert.fail("There are four")
  yield* sessions.compact(held.session_id, held.fence, {
    id: "first",
    summary: "of one",
    through: first.message_id,
    covered_seq: 0,
    prior_seq: 0
  })
  const compaction: Compaction = {
    id: "second",
    summary: "of three",
    through: third.message_id,
    covered_seq: 1,
    prior_seq: 1
  }
  const commit = Given.commitOf(
    held,
    [
      { _tag: "Compacted", compaction },
      { _tag: "Progressed", stage: "provider", progress: Given.progress },
      Given.started(yield* Given.newTask, "tool"),
      yield* Given.appended("five")
    ],
    [Given.row(2, "compaction")]
  )
  return { held, compaction, commit }
})

type Prepared = Effect.Success<typeof prepare>

const compacted = (ids: ReadonlyArray<string | null>) => ids.map((compacted_by, at) => ({ seq: at + 1, compacted_by }))

const untouched = {
  session: { summary: "of one", covered_seq: 1, covered_priors: 0 },
  messages: compacted(["first", null, null, null]),
  events: ["session"],
  plan: { steps: 0, tasks: 0 }
}

const session = { summary: "of three", covered_seq: 3, covered_priors: 1 }

interface Write {
  readonly run: (given: Prepared) => Effect.Effect<unknown, StorageError | LeaseLost, PlanStore | SessionStore>
  readonly done: typeof untouched
  /** Round trips to the database. */
  readonly statements: number
  /** What it changes, row by row. */
  readonly changes: ReadonlyArray<{ readonly of: string; readonly when: string }>
}

const covering = [
  { of: "update on messages", when: "new.seq = 2" },
  { of: "update on messages", when: "new.seq = 3" },
  { of: "update on sessions", when: "true" }
]

const commitAll = (commits: ReadonlyArray<PlanCommit>) => Effect.flatMap(PlanStore, (plans) => plans.commit(commits))

const writes: Readonly<Record<string, Write>> = {
  "of a plan": {
    run: ({ commit }) => commitAll([commit]),
    done: {
      session,
      messages: compacted(["first", "second", "second", null, null]),
      events: ["session", "compaction"],
      plan: { steps: Given.progress.steps, tasks: 1 }
    },
    statements: 1,
    changes: [
      ...covering,
      { of: "insert on messages", when: "true" },
      { of: "insert on events", when: "true" },
      { of: "insert on tasks", when: "true" },
      { of: "update on plans", when: "true" }
    ]
  },
  "that was asked for": {
    run: ({ held, compaction }) =>
      Effect.flatMap(SessionStore, (sessions) => sessions.compact(held.session_id, held.fence, compaction)),
    done: { ...untouched, session, messages: compacted(["first", "second", "second", null]) },
    // Begin, the lock, the place, the change, commit.
    statements: 5,
    changes: covering
  }
}

/** What is stored, for whoever comes next. */
const stateOf = Effect.fnUntraced(function* ({ held: { session_id, plan } }: Prepared) {
  const sql = yield* SqlClient.SqlClient
  const [session] = yield* sql`select summary, covered_seq, covered_priors from sessions where id = ${session_id}`
  const messages = yield* sql`select seq, compacted_by from messages where session_id = ${session_id} order by seq`
  const events = yield* sql<{ readonly event: string }>`
select event from events where plan_id = ${plan.plan_id} order by seq`
  const [row] = yield* sql`
select steps, (select count(*)::int from tasks where plan_id = plans.id) as tasks from plans where id = ${plan.plan_id}`
  return { session, messages, events: events.map(({ event }) => event), plan: row }
})

const applicationName = "cut"

/** The connection that was cut is over for the database, too: what was not committed is gone. */
const untilGone = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`
select from pg_stat_activity where datname = current_database() and application_name = ${applicationName}`
).pipe(Effect.repeat({ until: (left) => left.length === 0, schedule: Schedule.spaced("5 millis") }))

/** Runs a write on a connection of its own, which breaks at some instant, and gives what it fails with. */
const runOnCut = Effect.fnUntraced(function* (write: Write, given: Prepared, at: Break) {
  const { config } = yield* PgClient.PgClient
  const wire = yield* cutWire(config.url ?? assert.fail("There is a URL"))
  const stores = Layer.mergeAll(SqlPlanStore.layer({ sessionTtl }), SqlSessionStore.layer).pipe(
    Layer.provide(Publisher.layerAlone),
    Layer.provideMerge(PgClient.layer({ url: wire.url, maxConnections: 1, applicationName })),
    // Not the ones that are there already, on another connection.
    Layer.fresh
  )
  const error = yield* Effect.gen(function* () {
    // What comes behind this is the write, and nothing else.
    assert.isTrue(yield* (yield* PlanStore).isWritable)
    wire.breakAt(at)
    return yield* Given.failureOf(write.run(given))
  }).pipe(Effect.provide(stores))
  yield* untilGone
  return { error, sent: wire.sent() }
}, Effect.scoped)

const never: Break = { statement: Infinity, when: "before" }

/** A write that broke is none, and can be made again; it is whole then, and stays so. */
const isMade = Effect.fnUntraced(function* (write: Write, given: Prepared) {
  for (let tried = 0; tried < 2; tried++) {
    yield* write.run(given)
    assert.deepEqual(yield* stateOf(given), write.done)
  }
})

const onPostgres = Effect.map(migratedDatabase, (url) =>
  SqlStore.layerNoDeps({ sessionTtl, isShared: true }).pipe(
    Layer.provideMerge(PgClient.layer({ url, maxConnections: 5 }))
  )
).pipe(Layer.unwrap)

describe.concurrent.each(Object.entries(writes))("a compaction %s", (_, write) => {
  it.live("is stored as a whole or not at all when the connection breaks between two statements", () =>
    Effect.gen(function* () {
      const whole = yield* prepare
      assert.deepStrictEqual(yield* runOnCut(write, whole, never), { error: undefined, sent: write.statements })
      assert.deepEqual(yield* stateOf(whole), write.done)

      for (let statement = 1; statement <= write.statements; statement++) {
        for (const when of ["before", "behind"] as const) {
          const given = yield* prepare
          const { error } = yield* runOnCut(write, given, { statement, when })
          assert.strictEqual(error?._tag === "StorageError" && error.reason._tag, "unavailable")
          const isLast = statement === write.statements && when === "behind"
          assert.deepEqual(yield* stateOf(given), isLast ? write.done : untouched, `${when} ${statement}`)
          yield* isMade(write, given)
        }
      }
    }).pipe(Effect.provide(onPostgres))
  )

  it.live("is not stored at all when the server's process dies with a part of the rows written, or in the commit", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
create function die() returns trigger language plpgsql as $$ begin
  perform pg_terminate_backend(pg_backend_pid());
  perform pg_sleep(60);
end $$`
      for (const { of, when } of write.changes) {
        for (const instant of [
          `trigger die before ${of}`,
          `trigger die after ${of}`,
          `constraint trigger die after ${of}`
        ]) {
          const deferred = instant.startsWith("constraint") ? "deferrable initially deferred" : ""
          const given = yield* prepare
          yield* sql.unsafe(`create ${instant} ${deferred} for each row when (${when}) execute function die()`)
          const { error } = yield* runOnCut(write, given, never)
          yield* sql.unsafe(`drop trigger die ${of.slice(of.indexOf("on "))}`)
          assert.strictEqual(error?._tag === "StorageError" && error.reason._tag, "unavailable", instant)
          assert.deepEqual(yield* stateOf(given), untouched, instant)
          yield* isMade(write, given)
        }
      }
    }).pipe(Effect.provide(onPostgres))
  )
})
