import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, type Effect, type Option } from "effect"

/** A login, and what whoever kept it has to know of it. */
export interface StoredLogin {
  readonly digest: string
  readonly subject: string | null
}

/**
 * The logins of the web console, for all replicas. A login is known by a digest, from which nobody can make its cookie. Times are milliseconds since
 * 1970 on the clock of the process that asks.
 */
export class LoginStore extends Context.Service<
  LoginStore,
  {
    /** Keeps a login until its time, with a `subject` that is encrypted, and drops those whose time has come. The digest is a new one. */
    readonly keep: (
      digest: string,
      login: { readonly now: number; readonly until: number; readonly subject?: string }
    ) => Effect.Effect<void, StorageError>
    /** The one of these digests that is a login now. */
    readonly find: (
      digests: ReadonlyArray<string>,
      now: number
    ) => Effect.Effect<Option.Option<StoredLogin>, StorageError>
    /** Ends the logins with these digests. Those that are not there do not matter. */
    readonly drop: (digests: ReadonlyArray<string>) => Effect.Effect<void, StorageError>
  }
>()("@bowline/runtime/store/LoginStore") {}
