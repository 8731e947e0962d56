import * as TcpProxy from "@bowline/testing/unstable/http/TcpProxy"
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Redacted, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import type { Connection } from "effect/sql/SqlConnection"
import { TestClock } from "effect/testing"
import { boundTransactions } from "../../src/internal/BoundTransactions.ts"
import { freshDatabase } from "../postgres/freshDatabase.ts"

describe.concurrent("a server that does not answer any more", () => {
  for (const [statement, end] of [
    ["COMMIT", Effect.void],
    ["ROLLBACK", Effect.fail("told to")]
  ] as const) {
    it.effect(`closes the connection of a transaction whose ${statement} has no answer`, () =>
      Effect.gen(function* () {
        const url = new URL(Redacted.value(yield* freshDatabase))
        const { port, swallow } = yield* TcpProxy.proxy(url)
        url.host = `127.0.0.1:${port}`
        const pool = yield* Scope.make()
        const sql = yield* PgClient.make({ url: Redacted.make(url.toString()) }).pipe(
          Effect.map(boundTransactions),
          Scope.provide(pool)
        )
        const isSilent = yield* Deferred.make<void>()
        const writing = yield* sql`select 1`.pipe(
          Effect.andThen(swallow),
          Effect.andThen(Deferred.succeed(isSilent, undefined)),
          Effect.andThen(end),
          sql.withTransaction,
          Effect.exit,
          Effect.forkChild
        )
        yield* Deferred.await(isSilent)
        // The driver waits in real time for a statement that it has cancelled.
        yield* Effect.andThen(TestClock.adjust("1 second"), TestClock.withLive(Effect.sleep("50 millis"))).pipe(
          Effect.repeat({ until: () => writing.pollUnsafe() !== undefined })
        )
        assert.include(String(yield* Fiber.join(writing)), `${statement}: no answer within 10s`)
        yield* Scope.close(pool, Exit.void)
      }).pipe(Effect.scoped, Effect.provide(Reactivity.layer))
    )
  }
})

it.effect("leaves no transaction on a connection whose BEGIN is answered too late", () =>
  Effect.gen(function* () {
    const url = yield* freshDatabase
    const pool = yield* PgClient.make({ url, maxConnections: 1 })
    const isOpen = yield* Deferred.make<void>()
    const reserve = Effect.map(pool.reserve, (connection): Connection => ({
      ...connection,
      executeRaw: (statement: string) => {
        const done = connection.executeRaw(statement, [])
        if (statement !== "BEGIN") return done
        return done.pipe(Effect.andThen(Deferred.succeed(isOpen, undefined)), Effect.andThen(Effect.never))
      }
    }))
    const { withTransaction } = boundTransactions({ ...pool, reserve } as PgClient.PgClient)
    const writing = yield* Effect.forkChild(Effect.exit(withTransaction(Effect.void)))
    yield* Deferred.await(isOpen)
    yield* TestClock.adjust("10 seconds")
    assert.include(String(yield* Fiber.join(writing)), "BEGIN: no answer within 10s")
    const watcher = yield* PgClient.makeClient({ url })
    const open =
      yield* watcher`select from pg_stat_activity where datname = current_database() and state like 'idle in%'`
    assert.deepStrictEqual(open, [])
  }).pipe(Effect.scoped, Effect.provide(Reactivity.layer))
)
