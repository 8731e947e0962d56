import { PgClient } from "@effect/sql-pg"
import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { DateTime, Effect, Redacted, Schedule } from "effect"
import { Reactivity } from "effect/reactivity"
import { databases } from "../plan/Databases.ts"
import { post, start } from "../http/RunningGateway.ts"

const minute = 60_000
const day = 1_440 * minute

interface Row {
  readonly name: string
  readonly outcome: string
  readonly due: Date
}

it.live(
  "a database that is restored from the day before catches up as its schedules say, and fires their last minute again",
  () =>
    Effect.gen(function* () {
      const settings = yield* Effect.orDie(databases.postgres)
      const sql = yield* PgClient.makeClient({ url: Redacted.make(settings.DATABASE_URL) })
      const gateway = start(() => [say("ok")], settings)
      const firings = sql<Row>`
select s.name, f.outcome, f.due_at as due from firings f join schedules s on s.id = f.schedule_id order by f.due_at`
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { url } = yield* gateway
          // Far enough away for three requests, also on a busy machine.
          const soon = DateTime.toEpochMillis(yield* DateTime.now) + 20_000
          const from = DateTime.formatIso(DateTime.makeUnsafe(soon - 2 * day))
          for (const catch_up of ["none", "last", "all"]) {
            const fields = { when: { every_ms: minute, from }, plan: { question: "{{due_at}}" }, overlap: "queue" }
            const made = yield* post(`${url}/schedules`, { name: catch_up, catch_up, ...fields })
            assert.strictEqual(made.status, 201, made.text)
          }
          yield* sql`create table backup as select * from schedules`
          yield* Effect.repeat(firings, {
            until: (rows) => rows.length === 3,
            schedule: Schedule.spaced("50 millis")
          })
        })
      )
      const before = yield* firings
      const first = before[0]?.due.getTime() ?? 0
      assert.deepStrictEqual(
        before.map(({ due, outcome }) => [due.getTime(), outcome]),
        Array.from({ length: 3 }, () => [first, "started"])
      )
      yield* sql`delete from schedules`
      yield* sql`update backup set next_at = next_at - interval '1 day', look_at = look_at - interval '1 day'`
      yield* sql`insert into schedules overriding system value select * from backup`

      yield* gateway
      const rows = yield* Effect.repeat(firings, {
        // The last minute of each, and what each catches up.
        until: (rows) => rows.filter(({ name, outcome }) => name === "all" && outcome === "started").length >= 101,
        schedule: Schedule.spaced("100 millis")
      })
      const duesOf = (name: string, outcome: string) =>
        rows.filter((row) => row.name === name && row.outcome === outcome).map(({ due }) => due.getTime())
      const back = (count: number, to: number) =>
        Array.from({ length: count }, (_, index) => to - (count - 1 - index) * minute)
      // What came more than a minute before the start.
      const lastMissed = duesOf("none", "missed").at(-1) ?? 0
      const onTime = duesOf("none", "started")
      assert.isAtLeast(lastMissed, first - minute)
      assert.strictEqual(onTime[0], lastMissed + minute)
      assert.deepStrictEqual(duesOf("none", "missed"), back(100, lastMissed))
      assert.deepStrictEqual(duesOf("last", "missed"), back(100, lastMissed - minute))
      assert.deepStrictEqual(duesOf("last", "started").slice(0, 2), [lastMissed, lastMissed + minute])
      assert.deepStrictEqual(duesOf("all", "missed"), back(100, lastMissed))
      assert.deepStrictEqual(duesOf("all", "started").slice(0, 101), [
        ...back(100, first - day + 99 * minute),
        lastMissed + minute
      ])
    }).pipe(Effect.scoped, Effect.provide(Reactivity.layer)),
  300_000
)
