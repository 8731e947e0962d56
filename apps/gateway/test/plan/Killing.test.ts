import { PgClient } from "@effect/sql-pg"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { assert, describe, it } from "@effect/vitest"
import { Config, Console, Effect, Option, Random, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { databases } from "./Databases.ts"
import * as Killing from "./Killing.ts"

/** The rows that say that something still runs. */
const leftIn = (url: string) =>
  Effect.gen(function* () {
    const sql = yield* PgClient.makeClient({ url: Redacted.make(url) })
    const rows = yield* sql<{ readonly row: string }>`
select 'plan ' || id || ' is ' || state as row from plans where state in ('queued', 'running', 'waiting')
union all select 'task ' || id || ' is running' from tasks where state = 'running'`
    return rows.map(({ row }) => row)
  }).pipe(Effect.scoped, Effect.orDie, Effect.provide(Reactivity.layer))

const kill = Effect.fnUntraced(function* (
  size: number,
  byDefault: number,
  settings: Readonly<Record<string, string>>,
  left: Effect.Effect<ReadonlyArray<string>>
) {
  const kills = yield* Config.Int("BOWLINE_KILLS").pipe(Config.withDefault(byDefault))
  const seed = yield* Config.String("BOWLINE_KILL_SEED").pipe(Config.withDefault(`${yield* Random.nextInt}`))
  const plans = Option.getOrUndefined(yield* Config.option(Config.Int("BOWLINE_KILL_PLANS")))
  const recoveryMs = yield* Config.Int("BOWLINE_KILL_RECOVERY_MS").pipe(Config.withDefault(10_000))
  const rounds = { least: plans ?? 4, most: plans ?? 6, recoveryMs }
  yield* Console.log(`${kills} kills of ${size}, BOWLINE_KILL_SEED=${seed}`)
  const { play, spending, tally } = yield* Killing.make(seed, size, settings, left, rounds)
  const problems: Array<string> = []
  for (let round = 0; tally.kills < kills; round++) {
    const found = yield* play(round)
    for (const problem of found) yield* Console.error(problem)
    problems.push(...found)
  }
  const spent = yield* spending
  problems.push(...spent.problems)
  yield* Console.log(`${JSON.stringify({ ...tally, spent: spent.told })}, BOWLINE_KILL_SEED=${seed}`)
  assert.strictEqual(problems.slice(0, 10).join("\n"), "")
  assert.isAbove(tally.breaks, 0)
})

// As long as a round may take where nothing comes in time, for each kill that may be asked for.
const timeout = 6_000_000

describe("gateways that are killed at any instant", () => {
  it.live(
    "two on one Postgres: lose nothing that was seen, call nothing twice, and settle or resume every plan",
    () =>
      Effect.gen(function* () {
        const settings = yield* databases.postgres
        yield* kill(2, 3, settings, leftIn(settings.DATABASE_URL))
      }).pipe(Effect.provide(LoopbackNetwork.layer)),
    timeout
  )

  it.live(
    "one on the embedded database: loses nothing that was seen, calls nothing twice, and settles or resumes every plan",
    () =>
      Effect.flatMap(databases.embedded, (settings) => kill(1, 2, settings, Effect.succeed([]))).pipe(
        Effect.provide(LoopbackNetwork.layer)
      ),
    timeout
  )
})
