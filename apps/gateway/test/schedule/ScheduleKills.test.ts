import { PgClient } from "@effect/sql-pg"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import { say } from "@bowline/testing/provider/Turn"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { assert, describe, it } from "@effect/vitest"
import { Config, ConfigProvider, Console, Effect, Exit, Random, Redacted, Schedule, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { databases } from "../plan/Databases.ts"
import { start } from "../plan/GatewayProcess.ts"
import { post, send } from "../http/RunningGateway.ts"

const setting = (name: string, byDefault: number) =>
  Config.Int(name).pipe(
    Config.withDefault(byDefault),
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv()),
    Effect.orDie
  )

const hours = 3_600_000

/** Has a process believe every 3 s that its clock was set by 14 hours, back and forth. */
const steppingClock = `--import data:text/javascript,${encodeURIComponent(
  `const now = Date.now; Date.now = () => now() + (Math.floor(now() / 3000) % 2 ? ${7 * hours} : ${-7 * hours})`
)}`

interface Row {
  readonly name: string
  readonly due: Date
  readonly late: number
  readonly outcome: string
  readonly question: string | null
  readonly state: string | null
}

describe("schedules of two gateways with one Postgres", () => {
  it.live(
    "fire each second once, by the clock of the database, though gateways are killed and the clock of one is set",
    () =>
      Effect.gen(function* () {
        const kills = yield* setting("BOWLINE_SCHEDULE_KILLS", 2)
        const count = yield* setting("BOWLINE_SCHEDULES", 4)
        const provider = yield* (yield* Network).serve(yield* ChatHost.make(() => [say("ok")]))
        const settings = yield* Effect.orDie(databases.postgres)
        const environment = {
          ...settings,
          OPENAI_BASE_URL: `${provider.url}/v1`,
          OPENAI_API_KEY: "key",
          BOWLINE_LEASE_TTL: "2s",
          BOWLINE_SCHEDULE_MIN: "1s"
        }
        const sql = yield* PgClient.makeClient({ url: Redacted.make(settings.DATABASE_URL) })
        const started = Effect.map(
          sql<{ readonly count: number }>`select count(*)::int as count from firings where outcome = 'started'`,
          ([row]) => row?.count ?? 0
        )
        /** How many due times the schedule has that has the fewest. */
        const fewest = Effect.map(
          sql<{ readonly count: number }>`
select min(count)::int as count
from (select count(f.due_at) from schedules s left join firings f on f.schedule_id = s.id group by s.id) as counts`,
          ([row]) => row?.count ?? 0
        )
        const begin = (index: number) =>
          Effect.gen(function* () {
            const life = yield* Scope.make()
            const stepping = index === 1 ? { NODE_OPTIONS: steppingClock } : {}
            const { url } = yield* Scope.provide(start({ ...environment, ...stepping }), life)
            return { url, kill: Scope.close(life, Exit.void) }
          })
        const alive = [yield* begin(0), yield* begin(1)]
        yield* Effect.addFinalizer(() => Effect.forEach(alive, ({ kill }) => kill))
        const overlaps = ["queue", "skip", "interrupt"]
        for (let index = 0; index < count; index++) {
          const plan = { question: "{{schedule}} {{due_at}}" }
          const fields = { overlap: overlaps[index % 3], catch_up: "all", when: { every_ms: 1_000 }, plan }
          const made = yield* post(`${alive[0]?.url}/schedules`, { name: `${index}`, ...fields })
          assert.strictEqual(made.status, 201, made.text)
        }
        for (let killed = 0; killed < kills; killed++) {
          const index = killed % 2
          const enough = (yield* started) + (yield* Random.nextIntBetween(1, 3 * count))
          yield* Effect.repeat(started, {
            until: (fired) => fired >= enough,
            schedule: Schedule.spaced("10 millis")
          })
          yield* alive[index]?.kill ?? Effect.void
          alive[index] = yield* begin(index)
        }
        // All of them go on behind the kills.
        const goal = Math.max(kills, (yield* fewest) + 1)
        yield* Effect.repeat(fewest, { until: (count) => count >= goal, schedule: Schedule.spaced("100 millis") })
        const [{ url } = assert.fail()] = alive
        const { body } = yield* send(`${url}/schedules?limit=200`)
        for (const { schedule_id } of body["schedules"] as ReadonlyArray<{ readonly schedule_id: string }>) {
          yield* send(`${url}/schedules/${schedule_id}`, {
            method: "PATCH",
            headers: { "content-type": "application/json" },
            body: '{"paused": true}'
          })
        }
        const open = sql`select from plans where state in ('queued', 'running', 'waiting')`
        yield* Effect.repeat(open, { until: (plans) => plans.length === 0, schedule: Schedule.spaced("100 millis") })

        const rows = yield* sql<Row>`
select s.name, f.due_at as due, extract(epoch from f.fired_at - f.due_at)::float8 as late, f.outcome, p.question, p.state
from firings f join schedules s on s.id = f.schedule_id left join plans p on p.id = f.plan_id
order by s.name, f.due_at`
        const plans = yield* sql<{ readonly question: string }>`select question from plans`
        const asked = rows.flatMap(({ due, name, outcome, question }) => {
          if (outcome !== "started") return []
          assert.strictEqual(question, `${name} ${due.toISOString()}`)
          return [question]
        })
        // No plan is without a firing, and none has two.
        assert.sameMembers(
          plans.map(({ question }) => question),
          asked
        )
        for (let index = 0; index < count; index++) {
          const dues = rows.filter(({ name }) => name === `${index}`).map(({ due }) => due.getTime())
          const [first = 0] = dues
          assert.isAtLeast(dues.length, goal)
          assert.deepStrictEqual(
            dues,
            dues.map((_, second) => first + second * 1_000)
          )
        }
        assert.sameMembers(
          [...new Set(rows.map(({ outcome }) => outcome))].filter((outcome) => outcome !== "skipped"),
          ["started"]
        )
        const late = rows.map(({ late }) => late).toSorted((a, b) => a - b)
        yield* Console.log(
          `${kills} kills, ${rows.length} due times, ${asked.length} plans; late by ${late[Math.floor(late.length / 2)]} s, p99 ${late[Math.floor(late.length * 0.99)]} s`
        )
      }).pipe(Effect.provide([LoopbackNetwork.layer, Reactivity.layer]), Effect.scoped),
    6_000_000
  )
})
