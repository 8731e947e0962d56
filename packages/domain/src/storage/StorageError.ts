import { Data } from "effect"

/** The database cannot be reached now, or refused a statement for a temporary reason. */
export class Unavailable extends Data.TaggedClass("unavailable")<{ readonly cause: unknown }> {
  readonly isRetryable = true
}
/** A statement that will fail the same way again: a bug, or a schema that is not ours. */
export class Rejected extends Data.TaggedClass("rejected")<{ readonly cause: unknown }> {
  readonly isRetryable = false
}

/**
 * A statement of a store that failed.
 *
 * @example
 * ```ts
 * import type { StorageError } from "@bowline/domain/storage/StorageError"
 * import { Effect } from "effect"
 *
 * // Asks once more if that can help.
 * export const again = <A>(read: Effect.Effect<A, StorageError>) =>
 *   Effect.retry(read, { times: 1, while: ({ reason }) => reason.isRetryable })
 * ```
 */
export class StorageError extends Data.TaggedError("StorageError")<{ readonly reason: Unavailable | Rejected }> {
  override get message(): string {
    return this.reason._tag === "unavailable" ? "The database is not available" : "The database refused a statement"
  }
  /** Why it is not available. What a database says of a statement that it refused may show content: logs do not follow it. */
  override get cause(): unknown {
    return this.reason._tag === "unavailable" ? this.reason.cause : undefined
  }
}
