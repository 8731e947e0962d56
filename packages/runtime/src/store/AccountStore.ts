import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, Duration, type Effect, type Option } from "effect"

/** How long it is known behind the end of a token that its caller's plans need one: a plan waits no longer than 30 days. */
export const wantedFor = Duration.days(31)

/** A token with which a caller has come, encrypted. `until` and `now` are milliseconds since 1970. */
export interface NewToken {
  readonly sealed: string
  readonly until: number
  readonly now: number
}

/**
 * What callers have lent the gateway to act as them, for all replicas. Everything in it is encrypted. A caller has one token of its own here: the one that is
 * valid for the longest time.
 */
export class AccountStore extends Context.Service<
  AccountStore,
  {
    /**
     * Keeps a token in place of one that ends earlier, and forgets callers who need none any more. Where nothing is kept of the caller, it does so only if the token `isWanted`. Says
     * whether the caller has one here now. Idempotent.
     */
    readonly keepToken: (owner: CallerName, token: NewToken, isWanted: boolean) => Effect.Effect<boolean, StorageError>
    /** The caller's token, if it is valid still. */
    readonly token: (owner: CallerName, now: number) => Effect.Effect<Option.Option<string>, StorageError>
  }
>()("@bowline/runtime/store/AccountStore") {}
