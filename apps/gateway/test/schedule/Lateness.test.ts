import { PgClient } from "@effect/sql-pg"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import { say } from "@bowline/testing/provider/Turn"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { assert, it } from "@effect/vitest"
import { Config, ConfigProvider, Console, Effect, Redacted, Schedule } from "effect"
import { Reactivity } from "effect/reactivity"
import { databases } from "../plan/Databases.ts"
import { start } from "../plan/GatewayProcess.ts"
import { post } from "../http/RunningGateway.ts"

interface Found {
  readonly started: number
  readonly others: number
  readonly twice: number
  readonly p50: number
  readonly p99: number
  readonly most: number
}

it.live(
  "many schedules of every minute fire once each minute",
  () =>
    Effect.gen(function* () {
      const count = yield* Config.Int("BOWLINE_MANY_SCHEDULES").pipe(
        Config.withDefault(20),
        Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv())
      )
      // With few of them nobody waits for a whole minute.
      const everyMs = count < 1_000 ? 1_000 : 60_000
      const provider = yield* (yield* Network).serve(yield* ChatHost.make(() => [say("ok")]))
      const settings = yield* Effect.orDie(databases.postgres)
      const environment = {
        ...settings,
        OPENAI_BASE_URL: `${provider.url}/v1`,
        OPENAI_API_KEY: "key",
        BOWLINE_MAX_PLANS: "10000"
      }
      const { url } = yield* start(environment)
      yield* start(environment)
      const sql = yield* PgClient.makeClient({ url: Redacted.make(settings.DATABASE_URL) })
      const transactions = Effect.map(
        sql<{ readonly sum: number }>`
select (xact_commit + xact_rollback)::float8 as sum from pg_stat_database where datname = current_database()`,
        ([row]) => row?.sum ?? 0
      )
      // The first due times are spread over the interval that begins in 2 s.
      yield* sql`
insert into schedules (id, owner, name, calendar, plan, overlap, catch_up, paused, next_at, look_at)
select 'schedule_' || gen_random_uuid(), 'caller ' || i % 100, i::text, json_build_object('every_ms', ${everyMs}::int, 'from', to_char(d at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
  '{"question": "Hi"}', 'skip', 'last', false, d, d
from generate_series(1, ${count}) i, lateral (select date_trunc('milliseconds', now()) + interval '2 seconds' + i * ${everyMs / count}::float8 * interval '1 millisecond' as d) t`
      // What was written behind their backs the replicas hear of with this one.
      const far = { name: "far", when: { at: "2999-01-01T00:00:00Z" }, plan: { question: "Hi" } }
      assert.strictEqual((yield* post(`${url}/schedules`, far)).status, 201)
      const found = sql<Found>`
select count(*) filter (where outcome = 'started')::int as started, count(*) filter (where outcome <> 'started')::int as others,
  (select count(*)::int from (select 1 from firings group by schedule_id, due_at having count(*) > 1) t) as twice,
  percentile_cont(0.5) within group (order by extract(epoch from fired_at - due_at)::float8) as p50,
  percentile_cont(0.99) within group (order by extract(epoch from fired_at - due_at)::float8) as p99,
  max(extract(epoch from fired_at - due_at)::float8) as most
from firings where due_at < (select min(due_at) from firings) + ${everyMs} * interval '1 millisecond'`.pipe(
        Effect.map(([row = assert.fail()]) => row)
      )
      const before = yield* transactions
      const { others, twice, ...figures } = yield* Effect.repeat(found, {
        until: ({ others, started }) => started + others >= count,
        schedule: Schedule.spaced("500 millis")
      })
      const made = (yield* transactions) - before
      yield* Console.log(`${count} schedules: ${JSON.stringify(figures)}, ${Math.round(made)} transactions`)
      assert.deepStrictEqual({ others, twice }, { others: 0, twice: 0 })
    }).pipe(Effect.provide([LoopbackNetwork.layer, Reactivity.layer]), Effect.scoped),
  600_000
)
