// A database with the tables of the stores and so many events of plans that are over, and sealed, for as long as stdin stays open. Its
// arguments are the URL of a server and the number of events; it prints the URL of the database once that is filled.
import { anonymous } from "@bowline/domain/caller/CallerName"
import { PgClient } from "@effect/sql-pg"
import { Clock, Effect, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import * as Migrations from "../../src/migration/Migrations.ts"
import { makeWeeks } from "../../src/plan/internal/SealedWeeks.ts"

const eventsOfPlan = 20
const plansOfSession = 10

/** Keys as random as the ones that the gateway makes. */
const id = (prefix: string, of: string) => `'${prefix}_' || md5('${prefix}' || ${of})::uuid`

const fill = (plans: number): ReadonlyArray<string> => [
  `insert into sessions (id, owner, last_seq, created_at, last_active_at, expires_at)
   select ${id("session", "n")}, '${anonymous}', ${2 * plansOfSession}, now(), now(), now() + interval '30 days'
   from generate_series(0, ${Math.ceil(plans / plansOfSession) - 1}) n`,
  `insert into plans (id, session_id, owner, replica, state, stage, model, question_hash, preferences, metadata, usage, final,
     created_at, deadline_at, finished_at)
   select ${id("plan", "n")}, ${id("session", `n / ${plansOfSession}`)}, '${anonymous}', 'replica_gone', 'completed', null,
     'openai/quick', md5(n::text), '{}', '{}', '{}', '{}', now(), now(), now()
   from generate_series(0, ${plans - 1}) n`,
  `insert into messages (session_id, seq, id, plan_id, role, parts, created_at)
   select ${id("session", `n / ${plansOfSession}`)}, 2 * (n % ${plansOfSession}) + s, ${id("msg", `n || ':' || s`)},
     ${id("plan", "n")}, case s when 1 then 'user' else 'assistant' end,
     '[{"type":"text","text":"What is the state of the order?"}]', now()
   from generate_series(0, ${plans - 1}) n, generate_series(1, 2) s`,
  `insert into sealed (plan_id, ended_at, codec, last_seqs, ends, body)
   select id, finished_at, 'none', '{${eventsOfPlan}}', '{600}', decode(repeat(md5(id), 38), 'hex') from plans`,
  "vacuum analyze"
]

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
  if (plans > 0) yield* makeWeeks(sql, [new Date(yield* Clock.currentTimeMillis)])
  for (const statement of plans === 0 ? [] : fill(plans)) yield* sql.unsafe(statement)
  yield* Effect.sync(() => process.stdout.write(`${url.toString()}\n`))
  yield* Effect.promise(() => abandoned)
})
await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(Reactivity.layer)))
