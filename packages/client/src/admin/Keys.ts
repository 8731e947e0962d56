import type { PageQuery } from "../Bowline.ts"
import { systemClock } from "../Clock.ts"
import type { IssuedKey, NewKey, ShownKey } from "../OperatorWire.ts"
import { type BowlineOptions, fullJitter, makeRequests, pathOf, type Signal } from "../Requests.ts"

export type { IssuedKey, NewKey, ShownKey }

/** How a key is revoked. */
export interface RevokeOptions extends Signal {
  /** The plans that were started with the key end. */
  readonly endPlans?: boolean | undefined
}

/** A page of keys. */
export interface KeysPage {
  readonly keys: ReadonlyArray<IssuedKey>
  readonly next_cursor: string | null
}

/** How long the plans of a key may take to end, in milliseconds. */
const endWithin = 65_000

/** The keys of a gateway's callers, for its admins. No request is sent twice: a key would be made twice. */
export const createKeys = (options: BowlineOptions) => {
  const { call } = makeRequests({
    options: { ...options, maxRetries: 0 },
    clock: systemClock,
    backoff: fullJitter(systemClock)
  })
  return {
    /** The answer is the only one that has the key. */
    add: (key: NewKey, options?: Signal): Promise<ShownKey> =>
      call({ method: "POST", path: "/keys", body: key }, options),
    list: (query: PageQuery = {}, options?: Signal): Promise<KeysPage> =>
      call({ method: "GET", path: "/keys", query }, options),
    revoke: (id: string, { endPlans = false, signal }: RevokeOptions = {}): Promise<void> =>
      call(
        { method: "DELETE", path: pathOf("keys", id), query: endPlans ? { end_plans: true } : {} },
        { signal },
        endPlans ? endWithin : undefined
      )
  }
}
