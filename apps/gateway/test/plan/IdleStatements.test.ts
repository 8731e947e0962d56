import { say } from "@bowline/testing/provider/Turn"
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { post, start } from "../http/RunningGateway.ts"
import { databases } from "./Databases.ts"
import { proxy } from "./DatabaseProxy.ts"

/** Twenty show what a large deployment costs: then the statements are printed, also those of replicas while plans end on another one. */
const replicas = Number(process.env["BOWLINE_IDLE_REPLICAS"] ?? 2)
const seconds = Number(process.env["BOWLINE_IDLE_SECONDS"] ?? 6)
const isMeasured = process.env["BOWLINE_IDLE_REPLICAS"] !== undefined

const perReplica = 2
const plans = 50

const briefly = (statement: string) => statement.trim().replaceAll(/\s+/g, " ").slice(0, 90)

const print = (title: string, rates: ReadonlyArray<readonly [number, string]>) => {
  const lines = rates.toSorted(([a], [b]) => b - a).map(([rate, text]) => `${rate.toFixed(3).padStart(9)} ${text}`)
  process.stdout.write(`${title}\n${lines.join("\n")}\n`)
}

/** How often each statement was asked, to so many. */
const ratesOf = (asked: ReadonlyArray<string>, of: number) =>
  Array.from(Map.groupBy(asked, briefly), ([text, all]) => [all.length / of, text] as const)

/** How often the server has run each statement so far, if it counts that (`shared_preload_libraries=pg_stat_statements`). */
const countedBy = (sql: PgClient.PgClient) =>
  Effect.andThen(
    sql`create extension if not exists pg_stat_statements`,
    sql<{ readonly query: string; readonly calls: number }>`
select query, calls::int as calls from pg_stat_statements
where dbid = (select oid from pg_database where datname = current_database())`
  ).pipe(
    Effect.map((rows) => new Map(rows.map(({ calls, query }) => [query, calls]))),
    Effect.orElseSucceed(() => new Map<string, number>())
  )

describe("replicas that have nothing to do", () => {
  it.live(
    `ask the database at most ${perReplica} statements a second each`,
    () =>
      Effect.gen(function* () {
        const { DATABASE_URL } = yield* databases.postgres
        const others: Array<string> = []
        const first: Array<string> = []
        const database = yield* proxy(DATABASE_URL, (statement) => others.push(statement))
        const firsts = yield* proxy(DATABASE_URL, (statement) => first.push(statement))
        const { url } = yield* start(() => [say("ok")], { DATABASE_URL: firsts.url })
        for (let started = 1; started < replicas; started++) yield* start(() => [], { DATABASE_URL: database.url })
        const sql = yield* PgClient.makeClient({ url: Redacted.make(DATABASE_URL) })
        /** What is asked meanwhile, of the first one and of the others. */
        const watch = Effect.fnUntraced(function* <E, R>(effect: Effect.Effect<unknown, E, R>) {
          const before = isMeasured ? yield* countedBy(sql) : new Map<string, number>()
          first.length = 0
          others.length = 0
          yield* effect
          const counted = isMeasured ? yield* countedBy(sql) : before
          const calls = Array.from(
            counted,
            ([query, count]) => [count - (before.get(query) ?? 0), briefly(query)] as const
          )
          return { first: first.slice(), others: others.slice(), calls: calls.filter(([count]) => count > 0) }
        })
        // What a start asks is over.
        yield* Effect.sleep("2 seconds")
        const idle = yield* watch(Effect.sleep(seconds * 1_000))
        const all = [...idle.first, ...idle.others]
        const rate = all.length / replicas / seconds
        if (isMeasured) {
          print(`${rate} a second and replica`, ratesOf(all, replicas * seconds))
          print(`pg_stat_statements of ${seconds} s`, idle.calls)
          const asking = Effect.andThen(
            Effect.forEach(Array.from({ length: plans }), () => post(`${url}/plan`, { question: "?" })),
            Effect.sleep(seconds * 1_000)
          )
          const began = performance.now()
          const ended = yield* watch(asking)
          const took = (performance.now() - began) / 1_000
          print(`a plan, of the replica that runs it`, ratesOf(ended.first, plans))
          print(
            `a second and replica, of the others while ${plans} plans ended: ${ended.others.length / (replicas - 1) / took}, idle ${idle.others.length / (replicas - 1) / seconds}`,
            ratesOf(ended.others, (replicas - 1) * took)
          )
          print(`pg_stat_statements of ${plans} plans`, ended.calls)
        }
        assert.isAtMost(rate, perReplica)
        assert.isAbove(rate, 0)
      }).pipe(Effect.scoped, Effect.provide(Reactivity.layer)),
    180_000 + 2 * seconds * 1_000
  )
})
