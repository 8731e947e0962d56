import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Queue, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import * as MemoryDatabase from "../../src/embedded/MemoryDatabase.ts"

/** A database with a table, and two connections to it. */
const makeTable = Effect.gen(function* () {
  const database = yield* MemoryDatabase.open()
  const sql = yield* Effect.provide(database.client, Reactivity.layer)
  yield* sql`create table letters (letter text)`
  const one = yield* PgConnection.make(sql.config)
  const other = yield* PgConnection.make(sql.config)
  const add = (connection: PgConnection.PgConnection, letter: string) =>
    connection.query("insert into letters values ($1)", [letter])
  const letters = Effect.map(sql<{ readonly letter: string }>`select letter from letters`, (rows) =>
    rows.map(({ letter }) => letter).join("")
  )
  return { add, database, letters, one, other, sql }
})

describe("a database in memory", () => {
  it.live("lets a connection wait while another one has a transaction open", () =>
    Effect.gen(function* () {
      const { add, letters, one, other } = yield* makeTable
      yield* one.query("begin")
      yield* add(one, "a")
      const waiting = yield* Effect.forkScoped(add(other, "c"), { startImmediately: true })
      yield* add(one, "b")
      yield* one.query("rollback")
      yield* Fiber.join(waiting)
      assert.strictEqual(yield* letters, "c")
    })
  )

  it.live("rolls back what a connection has begun that is closed, though its last statement has failed", () =>
    Effect.gen(function* () {
      const { add, letters, other, sql } = yield* makeTable
      const scope = yield* Scope.make()
      const gone = yield* Scope.provide(PgConnection.make(sql.config), scope)
      yield* gone.query("begin")
      yield* add(gone, "a")
      assert.isTrue(Exit.isFailure(yield* Effect.exit(gone.query("select nothing"))))
      yield* Scope.close(scope, Exit.void)
      yield* add(other, "b")
      assert.strictEqual(yield* letters, "b")
    })
  )

  it.live("tells a connection that listens what another one says, when that commits", () =>
    Effect.gen(function* () {
      const { one, other } = yield* makeTable
      const heard = yield* one.listen("news")
      yield* other.query("begin")
      yield* other.query("notify news, 'early'")
      assert.strictEqual(yield* Queue.size(heard), 0)
      yield* other.query("commit")
      assert.strictEqual((yield* Queue.take(heard)).payload, "early")
    })
  )

  it.live("gives another database all that it has", () =>
    Effect.gen(function* () {
      const { add, database, letters, one } = yield* makeTable
      yield* add(one, "a")
      const copy = yield* MemoryDatabase.open(yield* database.dump)
      const sql = yield* Effect.provide(copy.client, Reactivity.layer)
      yield* add(one, "b")
      assert.deepStrictEqual(yield* sql`select letter from letters`, [{ letter: "a" }])
      assert.strictEqual(yield* letters, "ab")
    })
  )
})
