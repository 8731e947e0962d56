import type { CallerName } from "@bowline/domain/caller/CallerName"
import { Duration, Effect, Layer, Option } from "effect"
import { AccountStore, type NewToken, wantedFor } from "../store/AccountStore.ts"

/** Keeps what callers have lent in this process only. */
export const layer: Layer.Layer<AccountStore> = Layer.sync(AccountStore, () => {
  const tokens = new Map<CallerName, NewToken>()
  return {
    keepToken: (owner, token, isWanted) =>
      Effect.sync(() => {
        for (const [name, { until }] of tokens) {
          if (until + Duration.toMillis(wantedFor) <= token.now) tokens.delete(name)
        }
        const kept = tokens.get(owner)
        if (kept === undefined && !isWanted) return false
        if (kept === undefined || kept.until < token.until) tokens.set(owner, token)
        return true
      }),
    token: (owner, now) =>
      Effect.sync(() =>
        Option.fromNullishOr(tokens.get(owner)).pipe(
          Option.filter(({ until }) => until > now),
          Option.map(({ sealed }) => sealed)
        )
      )
  }
})
