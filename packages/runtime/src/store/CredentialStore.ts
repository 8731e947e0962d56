import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { type Array as Arrays, Context, type Effect } from "effect"

/** What a window binds: `credential` null is every one of the provider, `model` null every model. */
export interface WindowScope {
  readonly provider: string
  readonly credential: string | null
  readonly model: string | null
}

/** What is known of a scope. Times are by the store's clock. */
export interface CredentialRow extends WindowScope {
  /** The window that runs. `until` is in milliseconds since 1970; `leftMs` is more than 0. */
  readonly window: { readonly reason: string; readonly until: number; readonly leftMs: number } | null
  /** Windows that were opened since the last success. */
  readonly failures: number
  /** Microseconds since 1970. Only rows of a whole credential have it. */
  readonly lastUsed: number | null
}

/**
 * What all replicas know of credentials, by their configured ids. Writes of two at once commute, or one of them finds that
 * there is nothing to do.
 */
export class CredentialStore extends Context.Service<
  CredentialStore,
  {
    /** What can bind a choice for this model, and the credential that the session has kept to. */
    readonly read: (
      provider: string,
      model: string,
      session: SessionId
    ) => Effect.Effect<{ readonly rows: ReadonlyArray<CredentialRow>; readonly sticky: string | null }, StorageError>
    /** Everything, for operators. */
    readonly list: Effect.Effect<ReadonlyArray<CredentialRow>, StorageError>
    /**
     * Opens a window and counts it, unless one of the scope runs: that is left as it is, so that of two at once one opens it.
     * The n-th one since the last success takes the n-th of `durations` (in milliseconds), or the last of them. What is counted of
     * a whole credential is counted anew with another reason. Says whether it has opened one.
     */
    readonly open: (
      scope: WindowScope,
      reason: string,
      durations: Arrays.NonEmptyReadonlyArray<number>
    ) => Effect.Effect<boolean, StorageError>
    /** The session keeps to the credential, which is used now. The last one that is written counts. */
    readonly choose: (provider: string, credential: string, session: SessionId) => Effect.Effect<void, StorageError>
    /**
     * The credential is used now, and what was counted of it, for this model and as a whole, is forgotten. A window that runs,
     * runs on.
     */
    readonly succeed: (provider: string, credential: string, model: string) => Effect.Effect<void, StorageError>
    /** Ends all windows of the credential, and of all credentials of its provider at once, and forgets what was counted of them. */
    readonly clear: (provider: string, credential: string) => Effect.Effect<void, StorageError>
  }
>()("@bowline/runtime/store/CredentialStore") {}
