import type { PlanId } from "@bowline/domain/plan/Plan"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { PushStore } from "@bowline/runtime/unstable/store/PushStore"
import { ScheduleStore } from "@bowline/runtime/unstable/store/ScheduleStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { findBlock, findBlocksBefore } from "../../src/plan/SealedEvents.ts"
import { makeWeeks } from "../../src/plan/internal/SealedWeeks.ts"
import { lookForAbandoned } from "../../src/plan/internal/TakeOverPlans.ts"
import { findLeft, readRows, writeSealed } from "../../src/plan/internal/SealPlans.ts"
import { onEmbedded, onPostgres } from "../stores.ts"
import { fillDays } from "./fillDays.ts"

const plans = 8_000
const days = 29

/** The replica of all plans, which lives, and their leases: 400 of them run. */
const well = [
  `update plans set replica = 'replica_well'`,
  `update plans set state = case when ordinal % 4 = 0 then 'queued' else 'running' end, finished_at = null
   where ordinal > ${plans - 400}`,
  `insert into replicas (id, expires_at, parks, seals, seals_waits, codec, channel)
   values ('replica_well', now() + interval '1 hour', true, true, true, 2, 'well')`,
  `insert into leases (session_id, replica, fence, expires_at)
   select distinct session_id, 'replica_well', 1, now() + interval '1 hour' from plans where state = 'running'`
]

/** Plans of a month, most of them sealed, with messages; some sessions have expired, and some were deleted. */
const fill = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  yield* fillDays(plans, days)
  const ends = Array.from({ length: days + 1 }, (_, day) => new Date(now - Duration.toMillis(Duration.days(day))))
  yield* makeWeeks(sql, [...ends, null])
  for (const statement of [
    `insert into sealed (plan_id, ended_at, codec, last_seqs, ends, body)
     select id, finished_at, 'zstd-1', '{300}', '{2600}', decode(repeat(md5(id), 160), 'hex')
     from plans where finished_at is not null and ordinal % 10 <> 0`,
    `insert into events (plan_id, seq, count, event, payload)
     select p.id, s, 1, 'step', '{"step":1}' from plans p, generate_series(1, 20) s
     where p.finished_at is null or p.ordinal % 10 = 0`,
    `insert into messages (session_id, seq, id, plan_id, role, parts, created_at)
     select p.session_id, p.ordinal, 'msg_' || md5(p.id)::uuid, p.id, 'user', '[{"type":"text","text":"?"}]', p.created_at from plans p`,
    `update sessions s set expires_at = now() - interval '1 hour' where ordinal % 20 = 0
       and not exists (select from plans p where p.session_id = s.id and p.finished_at is null)`,
    // Plans that wait, and are sealed up to there.
    `update plans set state = 'waiting' where ordinal > ${plans - 200}`,
    "delete from leases l where not exists (select from plans p where p.session_id = l.session_id and p.state = 'running')",
    `insert into sealed (plan_id, ended_at, codec, last_seqs, ends, body)
     select id, 'infinity', 'zstd-1', '{20}', '{600}', decode(repeat(md5(id), 40), 'hex') from plans where state = 'waiting'`,
    "insert into deleted_plans (id) select 'plan_' || md5('gone' || n)::uuid from generate_series(1, 500) n",
    ...well,
    "vacuum full plans",
    "vacuum",
    "analyze"
  ]) {
    yield* sql.unsafe(statement)
  }
})

/** How Postgres reads the rows of a statement. */
const explain = Effect.fnUntraced(function* (statement: Statement.Statement<unknown>) {
  const sql = yield* SqlClient.SqlClient
  const [text, values] = statement.compile()
  const rows = yield* sql.unsafe<{ readonly "QUERY PLAN": string }>(`explain ${text}`, [...values])
  return rows.map((row) => row["QUERY PLAN"]).join("\n")
})

const large = /Seq Scan on (plans|events|messages|sealed)/

/**
 * The tables that grow with what is kept and of which every row is read while the effect runs: foreign keys are counted, too. The first week and that
 * of today, which are not whole, may be so small that an index would not help.
 */
const scansOf = Effect.fnUntraced(function* <A, E, R>(effect: Effect.Effect<A, E, R>) {
  const sql = yield* SqlClient.SqlClient
  // It counts from some transaction before on.
  const counted = sql<{ readonly relname: string; readonly scans: number }>`
select relname, seq_scan::int as scans from pg_stat_xact_user_tables
where pg_relation_size(relid) > 262144 and (relname in ('plans', 'events', 'messages') or relname like 'sealed%') order by relname`
  const scanned = Effect.gen(function* () {
    const before = new Map((yield* counted).map(({ relname, scans }) => [relname, scans]))
    yield* effect
    return (yield* counted).filter(({ relname, scans }) => scans > (before.get(relname) ?? 0))
  })
  return yield* sql.withTransaction(scanned)
})

/** How many rows of plans a look reads, and a take-over of the two that are abandoned. Of those that are well it reads none. */
const lookedForAbandoned = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const store = yield* PlanStore
  // It counts from some transaction before on.
  const counted = sql<{ readonly rows: number }>`
select (seq_tup_read + coalesce(idx_tup_fetch, 0))::int as rows from pg_stat_xact_user_tables where relname = 'plans'`
  const rowsRead = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    sql.withTransaction(
      Effect.gen(function* () {
        const before = (yield* counted)[0]?.rows ?? 0
        const found = yield* effect
        return [found, ((yield* counted)[0]?.rows ?? 0) - before] as const
      })
    )
  const how = yield* explain(lookForAbandoned(sql, "replica_other", false))
  assert.notMatch(how, large, how)
  const [found, rows] = yield* rowsRead(store.abandoned("replica_other"))
  assert.deepStrictEqual(found, { queued: [], isAny: false })
  assert.strictEqual(rows, 0)
  yield* sql`update leases set expires_at = now() - interval '1 second' where session_id = (
    select session_id from plans where state = 'running' order by id limit 1)`
  const [due, read] = yield* rowsRead(store.abandoned("replica_other"))
  assert.isTrue(due.isAny)
  assert.isAtMost(read, 40)
  assert.deepStrictEqual(yield* scansOf(store.takeOver("replica_other", Duration.seconds(15), 100)), [])
})

const looked = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const store = yield* PlanStore
  const sessions = yield* SessionStore
  yield* fill
  const [found] = yield* findLeft(sql, "")
  const left = found?.plans ?? []
  assert.lengthOf(left, 50)
  const [first] = left
  const [one] = yield* sql<{ readonly id: PlanId }>`select plan_id as id from sealed order by plan_id limit 1`
  assert(first !== undefined && one !== undefined)
  const body = [Buffer.from("x")]
  const now = new Date(yield* Clock.currentTimeMillis)
  const statements: Readonly<Record<string, readonly [Statement.Statement<unknown>, RegExp]>> = {
    "finds plans that were left": [findLeft(sql, ""), /Index Only Scan using events_pkey/],
    "reads what is to be sealed": [readRows(sql, left, { plan_id: "", seq: 0 }), /events_pkey/],
    "seals it": [
      writeSealed(
        sql,
        left.map((plan_id) => ({ plan_id, finished_at: now, first_seq: 1, last_seqs: [20], ends: [1], body }))
      ),
      /events_pkey/
    ],
    "reads what is sealed": [findBlock(sql, one.id, 0, fromMillis(0)), /sealed_\d+_pkey/],
    "reads what is sealed of a plan that waited": [
      findBlocksBefore(sql, [{ plan_id: one.id, seq: 1 }]),
      /sealed_open_pkey/
    ]
  }
  for (const [name, [statement, index]] of Object.entries(statements)) {
    const how = yield* explain(statement)
    assert.notMatch(how, large, `${name}\n${how}`)
    assert.match(how, index, `${name}\n${how}`)
  }
  yield* lookedForAbandoned
  const at = fromMillis(now.getTime())
  assert.deepStrictEqual(yield* scansOf(store.seal(left)), [])
  assert.deepStrictEqual(yield* scansOf(store.sealLeft(at)), [])
  assert.deepStrictEqual(yield* scansOf(sessions.sweep(at)), [])
  assert.deepStrictEqual(yield* scansOf(store.events(one.id, 300, 500)), [])
  // What replicas ask all the time besides.
  const files = yield* FileStore
  const inboxes = yield* InboxStore
  const looks: Readonly<Record<string, Effect.Effect<unknown, StorageError>>> = {
    "ends waits": inboxes.expire,
    "counts plans that wait": store.parked,
    "looks for plans that nobody reads": store.needingReaders,
    "reads requests to abort": store.abortRequests("replica_well"),
    "sweeps files": files.sweep(at),
    "claims what is to be told": (yield* PushStore).claim("replica_well", [], 100),
    "claims what is due": (yield* ScheduleStore).claim(100)
  }
  for (const [name, look] of Object.entries(looks)) assert.deepStrictEqual([name, yield* scansOf(look)], [name, []])
})

describe("of many plans that are kept", () => {
  it.live("neither a sweep, a sealing nor a replay reads all, on Postgres", () => Effect.provide(looked, onPostgres))
  it.live("neither a sweep, a sealing nor a replay reads all, on an embedded Postgres", () =>
    Effect.provide(looked, onEmbedded)
  )
})
