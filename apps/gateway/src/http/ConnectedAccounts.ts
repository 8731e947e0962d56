import { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, type Effect, Schema } from "effect"
import type { StoredGrant } from "@bowline/runtime/unstable/store/AccountStore"
import { foundAt } from "./FoundServer.ts"
import type { Refused } from "./Refusals.ts"

/** A browser that comes back, to the place of a server that was found or to that of all others, with parameters. */
export interface Arrival {
  readonly base: string
  readonly place: string | undefined
  readonly search: string
}

/** What a link to an account is for. */
export const Link = Schema.Struct({
  caller: CallerName,
  plan_id: PlanId,
  account: Schema.String,
  tool: Schema.String,
  ...foundAt,
  secret: Schema.String,
  until: Schema.Number
})
export type Link = typeof Link.Type

/** What a page says to a person of an account. */
export interface ShownAccount {
  /** The host at which the person logs in, to grant something. */
  readonly host: string
  readonly scopes: ReadonlyArray<string>
}

/** How callers grant something at the accounts of the configuration, and take it back. No account, unless the app has some. */
export const Accounts = Context.Reference<
  | {
      /** What a link is for. Refused if it is none of this gateway's. */
      readonly open: (link: string) => Effect.Effect<Link & ShownAccount, Refused>
      /** The same link, good for another 10 minutes. A URL that is none stays as it is. */
      readonly freshen: (url: string) => string
      /** Whether the plan of a link waits for the account still. */
      readonly isAwaited: (link: Link) => Effect.Effect<boolean, StorageError>
      /** Uses a secret up. False if it was used, or its time is over. */
      readonly use: (link: Link) => Effect.Effect<boolean, StorageError>
      /** Where to send the browser, and what it keeps meanwhile. */
      readonly depart: (
        link: Link,
        base: string
      ) => Effect.Effect<{ readonly url: URL; readonly kept: string }, Refused>
      /** For what a browser has left. Refused if it has not. */
      readonly openKept: (kept: string | undefined) => Effect.Effect<Link, Refused>
      /** Keeps what the browser has come back with, and wakes what waits for it. */
      readonly arrive: (way: Link, arrival: Arrival) => Effect.Effect<void, Refused | StorageError>
      /** What the gateway says of itself as a client, for servers that want to read it: of the one with this place, or of those that the configuration names. */
      readonly describe: (base: string, place?: string) => object
      readonly list: (caller: CallerName) => Effect.Effect<ReadonlyArray<StoredGrant>, StorageError>
      /** Forgets a grant, and says so to its server. False if there is none. */
      readonly disconnect: (caller: CallerName, account: string) => Effect.Effect<boolean, StorageError>
    }
  | undefined
>("@bowline/gateway/http/Accounts", { defaultValue: () => undefined })
