import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { type Array as Arrays, Context, type Effect } from "effect"

/**
 * What a window blocks: with `credential` null every credential of the provider, with `model` null every model. `key` is a digest of the key
 * behind the credential, or of all keys of the provider; null if it is not known.
 */
export interface WindowScope {
  readonly provider: string
  readonly credential: string | null
  readonly model: string | null
  readonly key: string | null
}

/** What the store knows about a scope. Times are on the store's clock. */
export interface CredentialRow extends WindowScope {
  /**
   * The open window. `since` and `until` are in milliseconds since 1970; `leftMs` is what remains of it, more than 0. A version that did not
   * store `since` may have opened it.
   */
  readonly window: {
    readonly reason: string
    readonly since: number | null
    readonly until: number
    readonly leftMs: number
  } | null
  /** How many windows were opened since the last success. */
  readonly failures: number
  /** Microseconds since 1970. Only rows of a whole credential have it. */
  readonly lastUsed: number | null
  /** Milliseconds since the last success with this key. Only rows of a whole credential have it. */
  readonly succeededMs: number | null
}

/**
 * What all replicas know about credentials, by their configured ids. Concurrent writes commute, or one of them finds nothing
 * to do. A row without a window that nobody has used for 7 days is deleted: by `SessionStore.sweep`, where it is stored.
 */
export class CredentialStore extends Context.Service<
  CredentialStore,
  {
    /** What digests of keys are made with, so that those of two stores differ. */
    readonly salt: string
    /** The rows that matter for this model, and `sticky`, the credential that the session used last. */
    readonly read: (
      provider: string,
      model: string,
      session: SessionId
    ) => Effect.Effect<{ readonly rows: ReadonlyArray<CredentialRow>; readonly sticky: string | null }, StorageError>
    /** All rows, for operators. */
    readonly list: Effect.Effect<ReadonlyArray<CredentialRow>, StorageError>
    /**
     * Opens a window for the scope and counts it. If the scope has an open window already, nothing changes: of two concurrent
     * calls only one opens a window. The n-th window since the last success lasts for the n-th of `durations` (in milliseconds),
     * or for the last of them. For a whole credential, a new reason restarts the count. A row of another key counts as none: the new
     * one takes its place. Returns whether it opened a window.
     */
    readonly open: (
      scope: WindowScope,
      reason: string,
      durations: Arrays.NonEmptyReadonlyArray<number>
    ) => Effect.Effect<boolean, StorageError>
    /** Makes the credential the session's `sticky` one, and marks it as used now. The last write wins. */
    readonly choose: (provider: string, credential: string, session: SessionId) => Effect.Effect<void, StorageError>
    /**
     * Marks the credential as used now, with success, and resets its counts of windows, for this model and for the whole credential. An
     * open window stays open until its time, unless it is one of another key.
     */
    readonly succeed: (
      credential: { readonly provider: string; readonly credential: string; readonly key: string | null },
      model: string
    ) => Effect.Effect<void, StorageError>
    /** Ends all windows of the credential, and those that block its whole provider, and resets their counts. */
    readonly clear: (provider: string, credential: string) => Effect.Effect<void, StorageError>
  }
>()("@bowline/runtime/store/CredentialStore") {}
