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

/** What a caller has granted at the authorization server of an account, for the gateway to act as the caller there. `sealed` are the tokens, encrypted. Times are milliseconds since 1970. */
export interface NewGrant {
  readonly sealed: string
  readonly scopes: ReadonlyArray<string>
  /** When its access token ends, if the server says so. */
  readonly expires_at: number | null
}

export interface StoredGrant extends NewGrant {
  readonly account: string
  readonly connected_at: number
  /** When a replica has begun to use its refresh token, if that has not ended. */
  readonly claimed_at: number | null
}

/** A grant as somebody has read it: of one that was replaced since then nothing changes. */
export interface GrantId {
  readonly owner: CallerName
  readonly account: string
  readonly sealed: string
}

/** What a caller has lent: `account` null is the token. */
export interface LentId {
  readonly owner: CallerName
  readonly account: string | null
  readonly sealed: string
}

/**
 * What callers have lent the gateway to act as them, for all replicas. All tokens in it are encrypted. A caller has one token of its own here: the one that is
 * valid for the longest time.
 */
export class AccountStore extends Context.Service<
  AccountStore,
  {
    /**
     * Keeps a token, as `news`, in place of one that ends earlier, and forgets callers who need none any more. Where nothing is kept of the caller, it does so only if the token `isWanted`. Says
     * whether the caller has one here now. Idempotent.
     */
    readonly keepToken: (owner: CallerName, token: NewToken, isWanted: boolean) => Effect.Effect<boolean, StorageError>
    /** The caller's token, if it is valid still. */
    readonly token: (owner: CallerName, now: number) => Effect.Effect<Option.Option<string>, StorageError>
    /** Keeps a grant in place of the one that the caller had for this account. It is `news`. */
    readonly connect: (
      id: Omit<GrantId, "sealed">,
      grant: NewGrant & { readonly now: number }
    ) => Effect.Effect<void, StorageError>
    /** The grants of a caller, by the names of their accounts: of one account, or of all. */
    readonly grants: (owner: CallerName, account?: string) => Effect.Effect<ReadonlyArray<StoredGrant>, StorageError>
    /** Some of what is not `heard`. */
    readonly news: Effect.Effect<ReadonlyArray<LentId>, StorageError>
    /** What waits for this is woken. What was replaced stays `news`. */
    readonly heard: (lent: LentId) => Effect.Effect<void, StorageError>
    /** Makes the caller of this the only one who may use the refresh token of a grant. False if somebody is, or the grant is another one by now. */
    readonly claim: (id: GrantId, now: number) => Effect.Effect<boolean, StorageError>
    /** Ends a claim: with what the refresh has given, or with the grant as it was. False if the grant is another one by now, or gone. */
    readonly release: (id: GrantId, renewed?: NewGrant) => Effect.Effect<boolean, StorageError>
    /** Forgets a grant. False if it is another one by now, or gone. */
    readonly disconnect: (id: GrantId) => Effect.Effect<boolean, StorageError>
    /** Uses a secret up, by its digest, which is kept until its end. False if it was used before. */
    readonly useOnce: (
      digest: string,
      secret: { readonly now: number; readonly until: number }
    ) => Effect.Effect<boolean, StorageError>
  }
>()("@bowline/runtime/store/AccountStore") {}
