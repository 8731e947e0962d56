// A database with the tables of the stores and so many events of plans that are over, and sealed, for as long as stdin stays open. Its
// arguments are the URL of a server and the number of events; it prints the URL of the database once that is filled.
import { anonymous } from "@bowline/domain/caller/CallerName"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { PgClient } from "@effect/sql-pg"
import { Clock, Effect, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import * as Migrations from "../../src/migration/Migrations.ts"
import { codec } from "../../src/session/internal/ReplicaRow.ts"
import { pack } from "../../src/plan/SealedEvents.ts"
import { makeWeeks } from "../../src/plan/internal/SealedWeeks.ts"
import { idOf } from "./filledIds.ts"

const eventsOfPlan = 20
const plansOfSession = 10

/** What is sealed of a plan: the same of all of them. */
const body = pack(
  Array.from({ length: eventsOfPlan }, (_, index) => ({
    seq: index + 1,
    at: fromMillis(20 * index),
    count: 1,
    event: "text.delta",
    payload: JSON.stringify({ step: 1, attempt: 1, delta: randomBytes(20).toString("base64") })
  }))
)

const fill = (plans: number): ReadonlyArray<string> => [
  `insert into sessions (id, owner, last_seq, created_at, last_active_at, expires_at)
   select ${idOf("session", "n")}, '${anonymous}', ${2 * plansOfSession}, now(), now(), now() + interval '30 days'
   from generate_series(0, ${Math.ceil(plans / plansOfSession) - 1}) n`,
  `insert into plans (id, session_id, owner, replica, state, stage, model, question_hash, preferences, metadata, usage, final,
     created_at, deadline_at, finished_at)
   select ${idOf("plan", "n")}, ${idOf("session", `n / ${plansOfSession}`)}, '${anonymous}', 'replica_gone', 'completed', null,
     'openai/quick', md5(n::text), '{}', '{}', '{}', '{}', now(), now(), now()
   from generate_series(0, ${plans - 1}) n`,
  `insert into messages (session_id, seq, id, plan_id, role, parts, created_at)
   select ${idOf("session", `n / ${plansOfSession}`)}, 2 * (n % ${plansOfSession}) + s, ${idOf("msg", "2 * n::bigint + s")},
     ${idOf("plan", "n")}, case s when 1 then 'user' else 'assistant' end,
     '[{"type":"text","text":"What is the state of the order?"}]', now()
   from generate_series(0, ${plans - 1}) n, generate_series(1, 2) s`,
  `insert into sealed (plan_id, ended_at, codec, last_seqs, ends, body)
   select id, finished_at, 'zstd-${codec}', '{${eventsOfPlan}}', '{${body.length}}', decode('${body.toString("hex")}', 'hex') from plans`
]

/** What each inserted row would be looked up in, or added to: the foreign keys and the secondary indexes of the tables that are filled. */
const extras = (sql: SqlClient.SqlClient) => sql<{ readonly drop: string; readonly add: string }>`
select format('alter table %s drop constraint %I', conrelid::regclass, conname) as drop,
  format('alter table %s add constraint %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) as add
from pg_constraint where contype = 'f' and conparentid = 0 and conrelid::regclass::text in ('sessions', 'plans', 'messages', 'sealed')
union all
select format('drop index %s', indexrelid::regclass), pg_get_indexdef(indexrelid)
from pg_index i where indrelid::regclass::text in ('sessions', 'plans', 'messages')
  and not exists (select from pg_constraint where conindid = i.indexrelid)`

/** Millions of rows are faster inserted without them, and indexed at once. */
const fillTables = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, plans: number) {
  const found = yield* extras(sql)
  for (const statement of [...found.map(({ drop }) => drop), ...fill(plans), ...found.map(({ add }) => add)]) {
    yield* sql.unsafe(statement)
  }
  yield* sql`vacuum analyze`
})

const [server = "", events = "0"] = process.argv.slice(2)

// Whoever stops this closes stdin as well: the database is dropped before the process ends.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => {})
const abandoned = once(process.stdin.resume(), "close")

const program = Effect.gen(function* () {
  const admin = yield* PgClient.makeClient({ url: Redacted.make(server) })
  const name = `bowline_filled_${randomBytes(8).toString("hex")}`
  yield* Effect.acquireRelease(admin`create database ${admin(name)}`, () =>
    Effect.orDie(admin`drop database ${admin(name)} with (force)`)
  )
  const url = new URL(server)
  url.pathname = `/${name}`
  const sql = yield* PgClient.makeClient({ url: Redacted.make(url.toString()) })
  yield* Effect.provideService(Migrations.run, SqlClient.SqlClient, sql)
  const plans = Math.ceil(Number(events) / eventsOfPlan)
  // An empty one is as new: nobody has looked at its tables yet.
  if (plans > 0) {
    yield* makeWeeks(sql, [new Date(yield* Clock.currentTimeMillis)])
    yield* fillTables(sql, plans)
  }
  yield* Effect.sync(() => process.stdout.write(`${url.toString()}\n`))
  yield* Effect.promise(() => abandoned)
})
await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(Reactivity.layer)))
