import type { PlanId } from "@bowline/domain/plan/Plan"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import * as Given from "@bowline/testing/unstable/store/Given"
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Layer, Random, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import * as SqlStore from "../../src/SqlStore.ts"
import { migratedDatabase } from "../postgres/freshDatabase.ts"
import { sessionTtl } from "../stores.ts"

/** As in the test that kills gateways. */
const kills = Number(process.env["BOWLINE_KILLS"] ?? 2)
const plansOfRound = 60

/** A plan that ended an hour ago, or waits, with so many events behind its first one. */
const written = Effect.fnUntraced(function* (events: number, isParked: boolean) {
  const at = (yield* Clock.currentTimeMillis) - 3_600_000
  const held = yield* Given.createHeld({ created_at: fromMillis(at) })
  const rows = Array.from({ length: events }, (_, index) =>
    Given.row(index + 2, "text.delta", JSON.stringify({ step: 1, attempt: 1, delta: `${index} knots ` }))
  )
  yield* Given.write(held, isParked ? Given.parked() : [Given.settled(Given.completed, fromMillis(at))], rows)
  return held
})

/** Has plans end an hour ago that waited, and are sealed up to there, with one event more. */
const endWaits = Effect.fnUntraced(function* (plans: ReadonlyArray<PlanId>) {
  const sql = yield* SqlClient.SqlClient
  yield* (yield* PlanStore).seal(plans)
  yield* sql`
insert into events (plan_id, seq, count, event, payload)
select s.plan_id, s.last_seqs[array_upper(s.last_seqs, 1)] + 1, 1, 'done', '{}' from sealed s where ${sql.in("s.plan_id", plans)}`
  yield* sql`
update plans set state = 'completed', finished_at = date_trunc('milliseconds', now() - interval '1 hour') where ${sql.in("id", plans)}`
})

interface Kept {
  readonly live: number
  readonly sealed: number
}

/** What a plan is kept as before it is sealed: its events, and its row if it waited. */
const unsealed = (index: number): Kept =>
  index % 3 === 2 ? { live: 1, sealed: 1 } : { live: (index % 40) + 1, sealed: 0 }

/** Starts the process that seals, kills it at an instant of this sweep, and waits until the database has noticed. */
const killSealing = Effect.fnUntraced(function* (url: Redacted.Redacted, sweep: number) {
  const sql = yield* SqlClient.SqlClient
  const within = yield* Random.nextIntBetween(0, 200)
  yield* Effect.promise(async () => {
    const script = fileURLToPath(import.meta.resolve("./sealUntilKilled.ts"))
    const child = spawn(process.execPath, [script, Redacted.value(url)], { stdio: ["ignore", "pipe", "inherit"] })
    const gone = once(child, "exit")
    let sweeps = 0
    for await (const line of createInterface({ input: child.stdout })) if (line === "sweep" && ++sweeps === sweep) break
    await new Promise((resolve) => setTimeout(resolve, within))
    child.kill("SIGKILL")
    assert.deepStrictEqual(await gone, [null, "SIGKILL"])
  })
  yield* Effect.repeat(
    sql`select from pg_stat_activity where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid() and query like '%sealed%'`,
    { until: (rows) => rows.length === 0 }
  )
})

describe("a process that is killed while it seals", () => {
  it.live(
    `leaves each plan as it was or sealed, never both and never in part, after ${kills} kills`,
    () =>
      Effect.gen(function* () {
        const url = yield* migratedDatabase
        const stores = Layer.fresh(SqlStore.layerPostgres({ url, maxConnections: 2, sessionTtl }))
        let sealed = 0
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const numbers = Array.from({ length: plansOfRound }, (_, index) => index)
          let left: Array<{ readonly stored: Given.Stored; readonly rows: unknown; readonly before: Kept }> = []
          for (let round = 0; round < kills; round++) {
            const plans = yield* Effect.forEach(numbers, (index) => written(index % 40, index % 3 > 0))
            yield* endWaits(plans.map(({ plan }) => plan.plan_id).filter((_, index) => index % 3 === 2))
            for (const [index, stored] of plans.entries()) {
              left.push({ stored, rows: yield* Given.rowsOf(stored), before: unsealed(index) })
            }
            yield* killSealing(url, 1 + (round % 2))
            const still: typeof left = []
            for (const one of left) {
              assert.deepStrictEqual(yield* Given.rowsOf(one.stored), one.rows)
              const { plan_id } = one.stored.plan
              const [kept] = yield* sql<Kept>`
select (select count(*)::int from events where plan_id = ${plan_id}) as live,
  (select count(*)::int from sealed where plan_id = ${plan_id}) as sealed`
              if (kept?.live !== 0) still.push(one)
              assert.deepStrictEqual(kept, kept?.live === 0 ? { live: 0, sealed: 1 } : one.before)
            }
            sealed += left.length - still.length
            left = still
          }
          // Whoever comes to the second sweep has sealed the plans of the first one.
          assert.isAtLeast(sealed, 1)
        }).pipe(Effect.provide(Layer.merge(stores, Layer.fresh(PgClient.layer({ url, maxConnections: 1 })))))
        yield* Effect.logInfo("killed", { kills, sealed })
      }).pipe(Effect.scoped),
    60_000 + 20_000 * kills
  )
})
