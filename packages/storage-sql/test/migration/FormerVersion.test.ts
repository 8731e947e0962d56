import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import * as Given from "@bowline/testing/unstable/store/Given"
import { Clock, Effect, Fiber, Layer, Redacted, Ref, Schedule, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { once } from "node:events"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Migrations from "../../src/migration/Migrations.ts"
import * as SqlStore from "../../src/SqlStore.ts"
import { freshDatabase } from "../postgres/freshDatabase.ts"
import { sessionTtl } from "../stores.ts"
import { fillPlans } from "./fillPlans.ts"

/** How often the new version starts beside each former one. */
const starts = Number(process.env["BOWLINE_UPGRADES"] ?? 2)

/** How many plans the database has that is measured. */
const plans = Number(process.env["BOWLINE_UPGRADE_PLANS"] ?? 3_000)

/** How many starts of the new version are killed before that. */
const kills = Number(process.env["BOWLINE_UPGRADE_KILLS"] ?? 0)

/** How many processes of the former version there are. */
const writers = 6

const Story = Schema.fromJsonString(
  Schema.Struct({
    statements: Schema.Array(Schema.String),
    story: Schema.Array(Schema.Tuple([Schema.Int, Schema.Array(Schema.Unknown)]))
  })
)

/** What former versions asked for two plans, by the number of their migrations: `recordStory.ts` has written it. */
const folder = join(import.meta.dirname, "stories")
const stories = readdirSync(folder).map((file) => ({
  version: Number.parseInt(file),
  ...Schema.decodeUnknownSync(Story)(readFileSync(join(folder, file), "utf8"))
}))

type StoryOf = (typeof stories)[number]

const NewIds = Schema.fromJsonString(Schema.Array(Schema.Unknown))

const decodeIds = Schema.decodeUnknownSync(NewIds)

const tell = Effect.fnUntraced(function* ({ statements, story }: StoryOf) {
  const sql = yield* SqlClient.SqlClient
  const ids = new Map<string, string>()
  for (const [statement, parameters] of story) {
    const own = JSON.stringify(parameters).replaceAll(/\{\d+\}/g, (name) => {
      const id = ids.get(name) ?? randomUUID()
      ids.set(name, id)
      return id
    })
    const rows = yield* sql.unsafe<{ readonly plan_id?: unknown }>(statements[statement] ?? "", decodeIds(own))
    // The answer of a commit has the plans that it refuses.
    if (statements[statement]?.includes("guards") === true) assert.deepStrictEqual(rows, [])
  }
})

/** Processes of the former version write plans until the effect is done, and for a while before and after it. */
const beside = <A, E, R>(story: StoryOf, url: Redacted.Redacted, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const isOver = yield* Ref.make(false)
    const toldBefore = yield* Ref.make(0)
    const writer = Effect.gen(function* () {
      yield* tell(story)
      yield* Ref.update(toldBefore, (count) => count + 1)
      yield* Effect.repeat(tell(story), { until: () => Ref.get(isOver) })
      yield* tell(story)
    }).pipe(Effect.provide(Layer.fresh(PgClient.layer({ url, maxConnections: 1 }))))
    const writing = yield* Effect.forkChild(
      Effect.all(
        Array.from({ length: writers }, () => writer),
        { concurrency: "unbounded", discard: true }
      )
    )
    yield* Effect.raceFirst(
      Fiber.join(writing),
      Effect.repeat(Ref.get(toldBefore), {
        until: (count) => count === writers,
        schedule: Schedule.spaced("10 millis")
      })
    )
    const done = yield* effect
    yield* Ref.set(isOver, true)
    yield* Fiber.join(writing)
    return done
  })

/** A database of the former version. */
const databaseOf = Effect.fnUntraced(function* ({ version }: StoryOf) {
  const url = yield* freshDatabase
  const former = Object.entries(Migrations.migrations).slice(0, version)
  yield* Effect.provide(Migrations.runOf(Object.fromEntries(former)), Layer.fresh(PgClient.layer({ url })))
  return url
})

/** Starts a process that migrates, and kills it after so many milliseconds. Says whether it was not done yet. */
const killedStart = (url: Redacted.Redacted, ms: number) =>
  Effect.promise(async () => {
    const script = fileURLToPath(import.meta.resolve("./migrate.ts"))
    const child = spawn(process.execPath, [script, Redacted.value(url)], { stdio: "inherit" })
    const ended = once(child, "exit")
    const killing = setTimeout(() => child.kill("SIGKILL"), ms)
    await ended
    clearTimeout(killing)
    return child.signalCode === "SIGKILL"
  })

/** A plan that one of the new replicas writes, and reads: in its queue, running, and over. */
const written = Effect.gen(function* () {
  const held = yield* Given.createHeld({})
  for (let seq = 2; seq < 20; seq++) {
    yield* Given.write(held, [], [Given.row(seq, "text.delta", '{"step":1,"attempt":1,"delta":"knot "}')])
  }
  const at = fromMillis(yield* Clock.currentTimeMillis)
  yield* Given.write(held, [Given.settled(Given.completed, at)], [Given.row(20, "done")])
  assert.lengthOf(yield* Given.eventsOf(held, 0, 100), 20)
})

describe("a new version", () => {
  for (const story of stories) {
    it.live(
      `starts beside one with ${story.version} migrations that is under load, and nothing of either fails`,
      () =>
        Effect.gen(function* () {
          const url = yield* databaseOf(story)
          const replica = Layer.fresh(SqlStore.layerPostgres({ url, maxConnections: 2, sessionTtl }))
          const replicas = Effect.all([Layer.build(replica), Layer.build(replica)], { concurrency: "unbounded" })
          yield* beside(story, url, Effect.scoped(replicas))
        }).pipe(Effect.scoped, Effect.repeat({ times: starts - 1 })),
      60_000 * starts
    )

    it.live(
      `keeps the commits of one with ${story.version} migrations waiting for no longer than 200 ms, however many plans there are`,
      () =>
        Effect.gen(function* () {
          const url = yield* databaseOf(story)
          yield* Effect.gen(function* () {
            const sql = yield* SqlClient.SqlClient
            yield* fillPlans(plans)
            const longest = yield* Ref.make(0)
            const watch = sql<{ readonly ms: number }>`
select coalesce(max(extract(epoch from clock_timestamp() - waitstart)), 0)::float8 * 1000 as ms
from pg_locks l join pg_stat_activity a using (pid)
where not granted and a.application_name <> 'bowline' and a.datname = current_database()`.pipe(
              Effect.flatMap(([row]) => Ref.update(longest, (before) => Math.max(before, row?.ms ?? 0))),
              Effect.andThen(Effect.sleep("2 millis")),
              Effect.forever
            )
            const replica = Effect.provide(
              Effect.repeat(written, { times: 10 * kills }),
              Layer.fresh(SqlStore.layerPostgres({ url, maxConnections: 2, sessionTtl }))
            )
            const interrupted = yield* Ref.make(0)
            const start = Effect.gen(function* () {
              for (let kill = 0; kill < kills; kill++) {
                if (yield* killedStart(url, 1_500 + 1_000 * kill)) yield* Ref.update(interrupted, (count) => count + 1)
              }
              yield* Effect.all([replica, replica], { concurrency: "unbounded" })
            })
            const [took] = yield* beside(story, url, Effect.timed(Effect.scoped(Effect.raceFirst(start, watch))))
            const waited = yield* Ref.get(longest)
            assert.strictEqual(yield* Ref.get(interrupted), kills)
            yield* Effect.logInfo("migrated", { plans, took, waited, kills })
            // A busy machine that runs all tests at once is no measure.
            if (plans >= 100_000) assert.isBelow(waited, 200)
          }).pipe(Effect.provide(PgClient.layer({ url, maxConnections: 1 })))
        }).pipe(Effect.scoped),
      3_600_000
    )
  }
})
