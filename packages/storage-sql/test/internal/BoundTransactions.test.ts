import * as TcpProxy from "@bowline/testing/unstable/http/TcpProxy"
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Redacted, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import type { Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import { TestClock } from "effect/testing"
import { boundTransactions } from "../../src/internal/BoundTransactions.ts"
import { freshDatabase } from "../postgres/freshDatabase.ts"

/** How a transaction ends whose statement is answered in another way, 10 s after it was sent. */
const endOf = Effect.fnUntraced(function* (
  client: PgClient.PgClient,
  statement: string,
  transaction: Effect.Effect<void, string>,
  answer: (sent: Effect.Effect<unknown, SqlError>, isSent: Effect.Effect<boolean>) => Effect.Effect<unknown, SqlError>
) {
  const isSent = yield* Deferred.make<void>()
  const reserve = Effect.map(client.reserve, (connection): Connection => ({
    ...connection,
    executeRaw: (text, values) => {
      const sent = connection.executeRaw(text, values)
      return text === statement ? answer(sent, Deferred.succeed(isSent, undefined)) : sent
    }
  }))
  const { withTransaction } = boundTransactions(Object.assign(client, { reserve }))
  const ending = yield* Effect.forkChild(Effect.exit(withTransaction(transaction)))
  yield* Deferred.await(isSent)
  yield* TestClock.adjust("10 seconds")
  return String(yield* Fiber.join(ending))
})

describe.concurrent("a server that does not answer any more", () => {
  for (const [statement, transaction] of [
    ["COMMIT", Effect.void],
    ["ROLLBACK", Effect.fail("told to")]
  ] as const) {
    it.effect(`closes the connection of a transaction whose ${statement} has no answer`, () =>
      Effect.gen(function* () {
        const url = new URL(Redacted.value(yield* freshDatabase))
        const { port, swallow } = yield* TcpProxy.proxy(url)
        url.host = `127.0.0.1:${port}`
        const pool = yield* Scope.make()
        const client = yield* Scope.provide(PgClient.make({ url: Redacted.make(url.toString()) }), pool)
        const end = yield* endOf(client, statement, transaction, (sent, isSent) =>
          swallow.pipe(Effect.andThen(isSent), Effect.andThen(sent))
        )
        assert.include(end, `${statement}: no answer within 10s`)
        yield* Scope.close(pool, Exit.void)
      }).pipe(Effect.scoped, Effect.provide(Reactivity.layer))
    )
  }
})

it.effect("leaves no transaction on a connection whose BEGIN is answered too late", () =>
  Effect.gen(function* () {
    const url = yield* freshDatabase
    const client = yield* PgClient.make({ url, maxConnections: 1 })
    const end = yield* endOf(client, "BEGIN", Effect.void, (sent, isSent) =>
      sent.pipe(Effect.andThen(isSent), Effect.andThen(Effect.never))
    )
    assert.include(end, "BEGIN: no answer within 10s")
    const watcher = yield* PgClient.makeClient({ url })
    const open =
      yield* watcher`select from pg_stat_activity where datname = current_database() and state like 'idle in%'`
    assert.deepStrictEqual(open, [])
  }).pipe(Effect.scoped, Effect.provide(Reactivity.layer))
)

it.effect("fails a transaction that the server has rolled back at its COMMIT", () =>
  Effect.gen(function* () {
    const sql = yield* Effect.map(PgClient.make({ url: yield* freshDatabase }), boundTransactions)
    const error = yield* Effect.flip(sql.withTransaction(Effect.ignore(sql`select 1 / 0`)))
    assert.strictEqual(error.message, "COMMIT rolled back an aborted transaction")
  }).pipe(Effect.scoped, Effect.provide(Reactivity.layer))
)
