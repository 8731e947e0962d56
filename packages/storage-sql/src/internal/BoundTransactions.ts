import type { PgClient } from "@effect/sql-pg"
import { Duration, Effect, Predicate } from "effect"
import { SqlClient } from "effect/sql"
import type { Connection } from "effect/sql/SqlConnection"
import { ConnectionError, SqlError, UnknownError } from "effect/sql/SqlError"
import { deadlines } from "./Deadline.ts"

const late = (operation: string) => {
  const message = `${operation}: no answer within ${Duration.format(deadlines.usual)}`
  return new SqlError({ reason: new ConnectionError({ cause: new Error(message), message, operation }) })
}

/**
 * A statement that begins or ends a transaction. Nobody can interrupt the fiber of a transaction there, so the time-out runs the statement in a fiber of its own, and
 * interrupts that. Then the driver closes the connection, unless the server answers within 5 s after all.
 */
const control = (connection: Connection, statement: string) =>
  Effect.timeoutOrElse(connection.executeRaw(statement, []), {
    duration: deadlines.usual,
    orElse: () => Effect.fail(late(statement))
  })

/** The server answers `COMMIT` with `ROLLBACK` where a statement of the transaction has failed. */
const rolledBack = (): SqlError => {
  const message = "COMMIT rolled back an aborted transaction"
  return new SqlError({ reason: new UnknownError({ cause: new Error(message), message, operation: "COMMIT" }) })
}

/**
 * Gives a client transactions that end although the server does not answer any more. Those of the driver wait for the answer to `COMMIT` for ever: the
 * connection stays in use, and the pool cannot close.
 */
export const boundTransactions = (client: PgClient.PgClient): PgClient.PgClient =>
  Object.assign(client, {
    withTransaction: SqlClient.makeWithTransaction({
      transactionService: client.transactionService,
      spanAttributes: [["db.system.name", "postgresql"]],
      acquireConnection: (restore) => restore(client.reserve),
      begin: (connection, statement = "BEGIN") =>
        // The answer may come just after the time-out: then the transaction is open, and the connection goes back to the pool.
        Effect.onError(control(connection, statement), () => Effect.ignore(control(connection, "ROLLBACK"))),
      savepoint: (connection, id) => control(connection, `SAVEPOINT effect_sql_${id}`),
      releaseSavepoint: (connection, id) => control(connection, `RELEASE SAVEPOINT effect_sql_${id}`),
      commit: (connection) =>
        Effect.flatMap(control(connection, "COMMIT"), (result) =>
          Predicate.hasProperty(result, "command") && result.command === "ROLLBACK"
            ? Effect.fail(rolledBack())
            : Effect.void
        ),
      rollback: (connection) => control(connection, "ROLLBACK"),
      rollbackSavepoint: (connection, id) => control(connection, `ROLLBACK TO SAVEPOINT effect_sql_${id}`)
    })
  })
