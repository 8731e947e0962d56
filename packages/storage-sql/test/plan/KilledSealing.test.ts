import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
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
const kills = Number(process.env["BOWLINE_KILLS"] ?? 4)
const plansOfRound = 60

/** A plan that ended an hour ago, with so many events behind its first one. */
const ended = Effect.fnUntraced(function* (events: number) {
  const at = (yield* Clock.currentTimeMillis) - 3_600_000
  const held = yield* Given.createHeld({ created_at: fromMillis(at) })
  const rows = Array.from({ length: events }, (_, index) =>
    Given.row(index + 2, "text.delta", JSON.stringify({ step: 1, attempt: 1, delta: `${index} knots ` }))
  )
  yield* Given.write(held, [Given.settled(Given.completed, fromMillis(at))], rows)
  return held
})

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
        const sides = { live: 0, sealed: 0 }
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          for (let round = 0; round < kills; round++) {
            const plans = yield* Effect.forEach(Array.from({ length: plansOfRound }), (_, index) => ended(index % 40))
            const before = yield* Effect.forEach(plans, (plan) => Given.eventsOf(plan, 0, 100))
            yield* killSealing(url, 1 + (round % 2))
            assert.deepStrictEqual(yield* Effect.forEach(plans, (plan) => Given.eventsOf(plan, 0, 100)), before)
            for (const [index, { plan }] of plans.entries()) {
              const [row] = yield* sql<{ readonly live: number; readonly sealed: number }>`
select (select count(*)::int from events where plan_id = ${plan.plan_id}) as live,
  (select count(*)::int from sealed where plan_id = ${plan.plan_id}) as sealed`
              const side = row?.sealed === 1 ? "sealed" : "live"
              sides[side]++
              assert.deepStrictEqual(
                row,
                side === "sealed" ? { live: 0, sealed: 1 } : { live: (index % 40) + 1, sealed: 0 }
              )
            }
          }
          // Whoever comes to the second sweep has sealed the plans of the first one, those of earlier rounds among them.
          assert.lengthOf(yield* sql`select from sealed limit 1`, 1)
        }).pipe(Effect.provide(Layer.merge(stores, Layer.fresh(PgClient.layer({ url, maxConnections: 1 })))))
        yield* Effect.logInfo("killed", { kills, ...sides })
      }).pipe(Effect.scoped),
    60_000 + 20_000 * kills
  )
})
