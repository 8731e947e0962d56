import { question, results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Redacted, Schedule } from "effect"
import { Reactivity } from "effect/reactivity"
import { post } from "../http/RunningGateway.ts"
import { get, start, toFrames } from "./GatewayProcess.ts"
import { askAndRead, begin, gate } from "./TroubledGateway.ts"

describe.concurrent("a database that takes 400 ms for an answer", () => {
  it.live("lets plans complete, and be cancelled", () =>
    Effect.gen(function* () {
      const stuck = gate()
      const { gateway } = yield* begin(
        (asked) => {
          if (question(asked) === "stuck") return [say("Well, "), stuck.wait]
          return results(asked).length > 0 ? [say("done")] : [callTool("nobody", {})]
        },
        { delay: 200 }
      )
      const plans = yield* Effect.forkChild(
        Effect.forEach(
          Array.from({ length: 20 }, (_, index) => `s${index % 15}`),
          (session_id) => get(gateway.url, "/plan", { question: "?", session_id }),
          { concurrency: "unbounded" }
        )
      )
      const { planId, reading } = yield* askAndRead(gateway.url, { question: "stuck" }, "Well, ")
      const cancelled = yield* get(gateway.url, `/plans/${planId}/cancel`, {})
      assert.deepInclude(cancelled["error"], { code: "aborted", reason: "cancelled" })
      assert.strictEqual(toFrames(yield* Fiber.join(reading)).at(-1)?.event, "done")
      assert.deepStrictEqual(
        (yield* Fiber.join(plans)).map(({ state }) => state),
        Array.from({ length: 20 }, () => "completed")
      )
    })
  )
})

describe.concurrent("a session whose row is locked, and more plans for it than there are connections", () => {
  it.live("cost no other session's plan its lease, and end well", () =>
    Effect.gen(function* () {
      const last = gate()
      const { gateway, settings } = yield* begin(
        (asked) => (question(asked) === "long" ? [say("one "), last.wait, say("two")] : [say(question(asked))]),
        { environment: { BOWLINE_LEASE_TTL: "4s" }, delay: 10 }
      )
      // Whoever does not renew its leases loses its plans to this one.
      yield* start(settings)
      yield* get(gateway.url, "/plan", { question: "first", session_id: "locked" })
      const { reading } = yield* askAndRead(gateway.url, { question: "long" }, "one ")
      const locked = Effect.gen(function* () {
        const url = Redacted.make(settings.DATABASE_URL)
        const sql = yield* PgClient.makeClient({ url })
        // A transaction would see the same activity all the time.
        const watcher = yield* PgClient.makeClient({ url })
        const waiting = watcher<{ readonly count: number }>`
select count(*)::int as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
        return yield* sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`select from sessions where external_id = 'locked' for update`
            const blocked = yield* Effect.forkDetach(
              Effect.all(
                Array.from({ length: 20 }, () => get(gateway.url, "/plan", { question: "?", session_id: "locked" })),
                { concurrency: "unbounded" }
              )
            )
            // Every connection waits for the lock, for longer than a lease runs.
            yield* waiting.pipe(
              Effect.repeat({ until: ([row]) => (row?.count ?? 0) >= 10, schedule: Schedule.spaced("50 millis") })
            )
            // A statement that waits for 10 s has failed: this one begins to wait now.
            const other = yield* Effect.forkDetach(get(gateway.url, "/plan", { question: "free", session_id: "free" }))
            yield* Effect.sleep("6 seconds")
            return { blocked, other }
          })
        )
      }).pipe(Effect.scoped, Effect.provide(Reactivity.layer))
      const { blocked, other } = yield* locked
      yield* last.open
      const frames = toFrames(yield* Fiber.join(reading))
      assert.deepStrictEqual(
        frames.slice(-4).map(({ event, data }) => data["delta"] ?? event),
        ["one ", "two", "final", "done"]
      )
      assert.deepInclude(yield* Fiber.join(other), { state: "completed" })
      for (const { state, code } of yield* Fiber.join(blocked))
        assert.oneOf(state ?? code, ["completed", "unavailable"])
      assert.isUndefined(gateway.lines.find((line) => line.includes("lease_lost")))
    })
  )
})

describe.concurrent("a gateway that is told to end while its database is away", () => {
  for (const how of ["refuse", "swallow"] as const) {
    it.live(`ends by itself when the database ${how === "refuse" ? "refuses connections" : "says nothing"}`, () =>
      Effect.gen(function* () {
        const never = gate()
        const { gateway, database } = yield* begin(() => [say("one "), never.wait], {
          environment: { BOWLINE_SHUTDOWN_GRACE: "100ms" }
        })
        yield* askAndRead(gateway.url, { question: "?", session_id: "s" }, "one ")
        yield* database[how]
        const code = yield* gateway.kill("SIGTERM").pipe(Effect.timeout("60 seconds"))
        assert.strictEqual(code, 0)
      })
    )
  }

  it.live("ends at once when it is told twice", () =>
    Effect.gen(function* () {
      const never = gate()
      const { gateway, database } = yield* begin(() => [say("one "), never.wait])
      yield* askAndRead(gateway.url, { question: "?", session_id: "s" }, "one ")
      yield* database.swallow
      yield* gateway.signal("SIGTERM")
      const refused = post(`${gateway.url}/plan`, { question: "?" })
      yield* Effect.repeat(refused, {
        until: ({ body }) => body["code"] === "draining",
        schedule: Schedule.spaced("50 millis")
      })
      // What comes within half a second of the first one is the same one.
      yield* Effect.sleep("600 millis")
      assert.isNull(yield* gateway.kill("SIGTERM"))
    })
  )
})
