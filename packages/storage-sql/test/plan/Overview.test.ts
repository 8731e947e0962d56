import { CallerName } from "@bowline/domain/caller/CallerName"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { type OverviewQuery, OverviewStore } from "@bowline/runtime/unstable/store/OverviewStore"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import * as Queries from "../../src/plan/internal/OverviewQueries.ts"
import { onEmbedded, onPostgres } from "../stores.ts"
import { fillDays } from "./fillDays.ts"

/** A million shows what a large store costs: then the times are printed. */
const plans = Number(process.env["BOWLINE_PLANS"] ?? 20_000)
const days = 30
const day = 86_400_000

const isMeasured = process.env["BOWLINE_PLANS"] !== undefined

/** How Postgres reads the rows of a statement. */
const explain = Effect.fnUntraced(function* (statement: Statement.Statement<unknown>) {
  const sql = yield* SqlClient.SqlClient
  const [text, values] = statement.compile()
  const rows = yield* sql.unsafe<{ readonly "QUERY PLAN": string }>(`explain ${text}`, [...values])
  return rows.map((row) => row["QUERY PLAN"]).join("\n")
})

const cases = Effect.gen(function* () {
  const now = yield* Clock.currentTimeMillis
  const last = (length: number, stepMs: number, owner?: string): OverviewQuery => ({
    since: fromMillis(now - length),
    until: fromMillis(now + 1_000),
    stepMs,
    ...(owner !== undefined && { owner: CallerName.make(owner) })
  })
  return {
    "24 h of everybody": last(day, 900_000),
    "24 h of one caller": last(day, 900_000, "caller_7"),
    "15 min of everybody": last(900_000, 15_000)
  }
})

const millisOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.timed(effect), ([taken, value]) => [taken, value] as const)

const looked = Effect.gen(function* () {
  yield* fillDays(plans, days)
  const sql = yield* SqlClient.SqlClient
  const store = yield* OverviewStore
  for (const [name, query] of Object.entries(yield* cases)) {
    const read: ReadonlyArray<readonly [statement: Statement.Statement<unknown>, index: RegExp]> = [
      [Queries.readPlans(sql, query), query.owner === undefined ? /plans_by_time/ : /plans_of_owner_by_time/],
      [Queries.readTools(sql, query), /tasks_by_time/],
      [Queries.readOpen(sql, query), query.owner === undefined ? /plans_open/ : /plans_newest_by_state/]
    ]
    for (const [statement, index] of read) {
      const how = yield* explain(statement)
      assert.notMatch(how, /Seq Scan on (plans|tasks)/, name)
      assert.match(how, index, name)
    }
    const [, { plans: counted, stretches }] = yield* millisOf(store.read(query))
    const sum = Object.values(counted).reduce((sum, count) => sum + count, 0)
    const [found] = yield* sql<{ readonly count: number }>`
select count(*)::int as count from plans p where p.created_at >= ${query.since}::timestamptz and p.created_at < ${query.until}::timestamptz
${query.owner === undefined ? sql`` : sql`and p.owner = ${query.owner}`}`
    assert.strictEqual(sum, found?.count)
    assert.isAtMost(stretches.length, 101)
    if (isMeasured) {
      for (let round = 0; round < 3; round++) {
        const [taken] = yield* millisOf(store.read(query))
        yield* Effect.sync(() => process.stdout.write(`${name}, ${sum} of ${plans} plans: ${String(taken)}\n`))
      }
    }
  }
})

describe("an overview of many plans", () => {
  it.live("reads the rows of its time by an index, on Postgres", () => Effect.provide(looked, onPostgres))
  it.live("reads the rows of its time by an index, on an embedded Postgres", () => Effect.provide(looked, onEmbedded))
})
