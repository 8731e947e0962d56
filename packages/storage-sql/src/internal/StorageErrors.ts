import { Rejected, StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { Effect, Predicate } from "effect"
import { SqlError } from "effect/sql/SqlError"

/**
 * What passes without anybody changing a statement, and is no class of its own in `SqlError`: too few resources (53), an
 * operator's intervention such as a shutdown (57P), a database that takes no connections (55000), and a server that has become a
 * standby (25006).
 */
const passes = /^(53...|57P..|55000|25006)$/

const isPassing = (error: SqlError): boolean => {
  if (error.isRetryable) return true
  const { cause } = error.reason
  return Predicate.hasProperty(cause, "code") && Predicate.isString(cause.code) && passes.test(cause.code)
}

const isSqlError = (error: unknown): error is SqlError => error instanceof SqlError

/** Translates what the database says, once, into the words of the domain. */
export const translateErrors = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(
    // A transaction whose connection is gone cannot be rolled back either, and that failure comes as a defect.
    Effect.catchDefect((defect) => (isSqlError(defect) ? Effect.fail(defect) : Effect.die(defect))),
    Effect.catchIf(isSqlError, (cause) =>
      Effect.fail(new StorageError({ reason: isPassing(cause) ? new Unavailable({ cause }) : new Rejected({ cause }) }))
    )
  )
