import type { CallerName } from "@bowline/domain/caller/CallerName"
import { CallerTokens } from "@bowline/runtime/unstable/auth/CallerTokens"
import type { CallerToken } from "@bowline/runtime/unstable/config/AskerFacts"
import { LruCache } from "@bowline/runtime/unstable/process/LruCache"
import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import { Effect } from "effect"

/** How many callers are remembered, and for how many milliseconds the store is not asked again whether somebody wants a token. */
const maxCallers = 10_000
const askedEvery = 5_000

/**
 * Keeps what callers come with for plans of theirs that act as them. The store is asked once about a token that it keeps, and every few seconds about one that nobody wants. No request is
 * refused because that fails.
 */
export const make = Effect.map(CallerTokens, ({ areKept, keep }) => {
  const seen = new LruCache<CallerName, { readonly until: number; readonly askAt: number }>(maxCallers)
  return Effect.fnUntraced(
    function* (token: CallerToken) {
      const { caller } = token
      if (!areKept) return
      const now = yield* Monotonic.now
      const last = seen.get(caller)
      if (last !== undefined && last.until >= token.until && now < last.askAt) return
      seen.set(caller, { until: token.until, askAt: now + askedEvery })
      const isKept = yield* keep(token, false)
      if (isKept) seen.set(caller, { until: token.until, askAt: Infinity })
    },
    Effect.ignore({ log: "Warn", message: "storage_failed" })
  )
})
