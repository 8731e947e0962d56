import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { IssuedKey, KeyId } from "@bowline/domain/unstable/caller/IssuedKey"
import { Context, type Effect, type Option } from "effect"
import type { Page, PageRequest } from "./Page.ts"

/** A key as it is stored: `digest` is the SHA-256 of the key, which is stored nowhere. */
export interface NewKey extends Omit<IssuedKey, "last_used_at"> {
  readonly digest: string
}

/** The start of the minute of a time, in milliseconds: a key that is used once a second is not written once a second. */
export const minuteOf = (millis: number): number => Math.floor(millis / 60_000) * 60_000

/**
 * The keys that admins have made, for all replicas. A key is known by its digest. Times are milliseconds since 1970 on the clock of the process that
 * asks.
 */
export class KeyStore extends Context.Service<
  KeyStore,
  {
    /** Keeps a key. Its digest is a new one. */
    readonly add: (key: NewKey) => Effect.Effect<void, StorageError>
    /** The key with this digest, unless its time is over or somebody has revoked it; notes that it is used, to the minute. */
    readonly find: (digest: string, now: number) => Effect.Effect<Option.Option<IssuedKey>, StorageError>
    /** All keys, the newest first, also those whose time is over. */
    readonly list: (page: PageRequest) => Effect.Effect<Page<IssuedKey>, StorageError>
    /** Deletes the key, and returns it as it was. None if there is none, or no longer. */
    readonly revoke: (id: KeyId) => Effect.Effect<Option.Option<IssuedKey>, StorageError>
  }
>()("@bowline/runtime/store/KeyStore") {}
