import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { FoundAccount } from "@bowline/domain/peer/PeerError"
import { Context, Effect, Option, type Redacted } from "effect"
import type { ExchangeError } from "../http/ExchangeError.ts"

/** What waits for an account. `tool` is what would act as the caller. */
export interface AskedAccount {
  readonly account: string
  readonly caller: CallerName
  readonly plan_id: PlanId
  readonly tool: string
  /** What the server has said of an account that the configuration does not name. */
  readonly found?: FoundAccount | undefined
}

/** What callers have granted for the accounts of the configuration, and for those that servers name, so that plans act as them there. No account, unless the app has some. */
export const AccountGrants = Context.Reference<{
  /** The account that is meant where this URL is called: one of the configuration, or that of the URL itself, if it `isFound` by what its server says. */
  readonly accountAt: (name: string, url: string) => { readonly account: string; readonly isFound: boolean }
  /** Finds the account of a URL whose server has answered 401 with this `WWW-Authenticate`. */
  readonly find: (url: string, challenge: string | undefined) => Effect.Effect<FoundAccount, ExchangeError>
  /** Why what is granted for an account does not go to a URL that a request names, if so. */
  readonly refuseAt: (account: string, url: string) => string | undefined
  /** The token of a caller for an account, renewed if it ends soon. None: the caller has to grant one. */
  readonly token: (
    caller: CallerName,
    account: string
  ) => Effect.Effect<Option.Option<Redacted.Redacted>, ExchangeError>
  /** Takes a token for one that is not good any more, as the server says: it is renewed, or its grant is dropped. */
  readonly refuse: (caller: CallerName, account: string, token: Redacted.Redacted) => Effect.Effect<void, ExchangeError>
  /** Where the caller can grant what a plan waits for. It has a secret. Null where there is no such place. */
  readonly linkOf: (asked: AskedAccount) => Effect.Effect<string | null>
}>("@bowline/runtime/auth/AccountGrants", {
  defaultValue: () => ({
    accountAt: (account) => ({ account, isFound: false }),
    find: () => Effect.die(new Error("There are no accounts")),
    refuseAt: (account) => `Expected an account of the configuration (accounts in the file), which has no ${account}`,
    token: () => Effect.succeedNone,
    refuse: () => Effect.void,
    linkOf: () => Effect.succeed(null)
  })
})
