import { systemClock } from "../Clock.ts"
import type { ConnectedAccount } from "../OperatorWire.ts"
import { type BowlineOptions, fullJitter, makeRequests, pathOf, type Signal } from "../Requests.ts"

export type { ConnectedAccount }

/** The accounts at which a caller has let the gateway act as it. */
export const createAccounts = (options: BowlineOptions) => {
  const { call } = makeRequests({ options, clock: systemClock, backoff: fullJitter(systemClock) })
  return {
    list: (options?: Signal): Promise<{ readonly accounts: ReadonlyArray<ConnectedAccount> }> =>
      call({ method: "GET", path: "/accounts" }, options),
    /** The gateway forgets what the caller has granted there, and revokes it. */
    remove: (name: string, options?: Signal): Promise<void> =>
      call({ method: "DELETE", path: pathOf("accounts", name) }, options)
  }
}
