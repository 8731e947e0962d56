import { CallerName } from "@bowline/domain/caller/CallerName"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { type OverviewQuery, OverviewStore } from "@bowline/runtime/unstable/store/OverviewStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import type { PlanFilter } from "@bowline/runtime/unstable/store/PlanStore"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { listPlans } from "../../src/plan/internal/ListPlans.ts"
import * as Queries from "../../src/plan/internal/OverviewQueries.ts"
import { listRecent } from "../../src/session/SqlSessionStore.ts"
import { onEmbedded, onPostgres } from "../stores.ts"
import { fillDays } from "./fillDays.ts"

/** As many as give each caller more sessions than a page has. A million shows what a large store costs: then the times are printed. */
const plans = Number(process.env["BOWLINE_PLANS"] ?? 12_000)
const isMeasured = process.env["BOWLINE_PLANS"] !== undefined
const days = 30
const day = 86_400_000

/** How Postgres reads the rows of a statement. */
const explain = Effect.fnUntraced(function* (statement: Statement.Statement<unknown>) {
  const sql = yield* SqlClient.SqlClient
  const [text, values] = statement.compile()
  const rows = yield* sql.unsafe<{ readonly "QUERY PLAN": string }>(`explain ${text}`, [...values])
  return rows.map((row) => row["QUERY PLAN"]).join("\n")
})

const byIndex = Effect.fnUntraced(function* (
  name: string,
  statement: Statement.Statement<unknown>,
  index: RegExp = /Index/
) {
  const how = yield* explain(statement)
  assert.notMatch(how, /Seq Scan on (plans|tasks)/, name)
  assert.match(how, index, name)
})

const measured = Effect.fnUntraced(function* <A, E, R>(name: string, effect: Effect.Effect<A, E, R>) {
  for (let round = 0; isMeasured && round < 3; round++) {
    const [taken] = yield* Effect.timed(effect)
    yield* Effect.sync(() => process.stdout.write(`${name}, of ${plans} plans: ${String(taken)}\n`))
  }
})

const ann = CallerName.make("caller_7")

const overviews = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const store = yield* OverviewStore
  const now = yield* Clock.currentTimeMillis
  const last = (length: number, stepMs: number): OverviewQuery => ({
    since: fromMillis(now - length),
    until: fromMillis(now + 1_000),
    stepMs
  })
  const cases: Readonly<Record<string, OverviewQuery>> = {
    "24 h of everybody": last(day, 900_000),
    "24 h of one caller": { ...last(day, 900_000), owner: ann },
    "15 min of everybody": last(900_000, 15_000)
  }
  for (const [name, query] of Object.entries(cases)) {
    const isOfAll = query.owner === undefined
    yield* byIndex(name, Queries.readPlans(sql, query), isOfAll ? /plans_by_time/ : /plans_(of_owner_)?by_time/)
    yield* byIndex(name, Queries.readTools(sql, query), /tasks_by_time/)
    yield* byIndex(name, Queries.readCalls(sql, query), /tasks_by_time/)
    yield* byIndex(name, Queries.readOpen(sql, query), /plans_not_over|plans_newest_by_state/)
    const { plans: counted, stretches } = yield* store.read(query)
    const sum = Object.values(counted).reduce((sum, count) => sum + count, 0)
    const [found] = yield* sql<{ readonly count: number }>`
select count(*)::int as count from plans p where p.created_at >= ${query.since}::timestamptz and p.created_at < ${query.until}::timestamptz
${isOfAll ? sql`` : sql`and p.owner = ${query.owner}`}`
    assert.strictEqual(sum, found?.count)
    assert.isAtMost(stretches.length, 101)
    yield* measured(`${name}, ${sum} plans`, store.read(query))
    if (isOfAll) yield* measured(`${name}, calls of peers`, store.peers(query))
  }
})

const lists = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const since = fromMillis(now - day)
  const until = fromMillis(now + 1_000)
  const old = { since: fromMillis(now - 29 * day), until: fromMillis(now - 28 * day) }
  const cases: Readonly<Record<string, PlanFilter>> = {
    "the newest": {},
    "failed in 24 h": { since, until, states: ["failed"] },
    "failed on an old day": { ...old, states: ["failed"] },
    "of an error": { error_code: "loop_detected" },
    "past their deadline in 24 h": { since, until, error_code: "aborted", reason: "deadline" },
    "of a tool": { tool: "agent_7_search" },
    "of a tool in 24 h": { since, until, tool: "agent_7_search" },
    "of a tool that nobody called": { tool: "nobody" },
    "of an agent": { agent: "agent_7" },
    "of metadata": { metadata: [["tenant", "tenant 8"]] },
    "of metadata that nobody sent": { metadata: [["tenant", "nobody"]] },
    "of a question in 24 h": { since, until, q: "order 9999" }
  }
  for (const owner of [undefined, ann]) {
    for (const [title, filter] of Object.entries(cases)) {
      const name = `${title}, of ${owner ?? "everybody"}`
      const statement = () => listPlans(sql, owner, filter, { limit: 50 })
      yield* byIndex(name, statement())
      yield* measured(name, Effect.suspend(statement))
    }
  }
})

/** A server analyzes its tables by itself, later than a test waits. */
const analyze = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`analyze`)

/** The embedded database does so where the gateway has it done. */
const isAnalyzed = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<{ readonly count: number }>`
select count(*)::int as count from pg_stat_user_tables where relname in ('plans', 'tasks') and last_analyze is not null`
).pipe(Effect.delay("2 seconds"), Effect.repeat({ until: ([row]) => row?.count === 2 }))

const sessions = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { recent } = yield* SessionStore
  const first = yield* recent(ann, { limit: 50 })
  assert.isNotNull(first.items[0]?.last_plan)
  assert.isNotNull(first.next)
  for (const page of [{ limit: 50 }, { limit: 50, cursor: first.next ?? { at: "", ordinal: 0 } }]) {
    const statement = () => listRecent(sql, ann, page)
    yield* byIndex(
      "sessions by activity",
      statement(),
      isMeasured ? /sessions_by_activity/ : /Index Scan.* on sessions/
    )
    assert.notMatch(yield* explain(statement()), /Seq Scan on sessions/)
    yield* measured("sessions by activity", Effect.suspend(statement))
  }
})

const looked = Effect.fnUntraced(function* <E, R>(analyzed: Effect.Effect<unknown, E, R>) {
  yield* fillDays(plans, days)
  yield* analyzed
  yield* overviews
  yield* lists
  yield* sessions
})

describe("of many plans, an overview and each filter of a list", () => {
  it.live("read their rows by an index, on Postgres", () => Effect.provide(looked(analyze), onPostgres))
  it.live("read their rows by an index, on an embedded Postgres", () => Effect.provide(looked(isAnalyzed), onEmbedded))
})
