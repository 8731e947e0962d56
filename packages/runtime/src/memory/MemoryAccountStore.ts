import type { CallerName } from "@bowline/domain/caller/CallerName"
import { Duration, Effect, Layer, Option } from "effect"
import {
  AccountStore,
  type GrantId,
  type LentId,
  type NewToken,
  type StoredGrant,
  wantedFor
} from "../store/AccountStore.ts"

/** Keeps what callers have lent in this process only. */
export const layer: Layer.Layer<AccountStore> = Layer.sync(AccountStore, () => {
  const tokens = new Map<CallerName, NewToken>()
  const grants = new Map<CallerName, Map<string, StoredGrant>>()
  const used = new Map<string, number>()
  const news = new Map<string, Omit<LentId, "sealed">>()
  const find = ({ account, owner, sealed }: GrantId): StoredGrant | undefined => {
    const found = grants.get(owner)?.get(account)
    return found?.sealed === sealed ? found : undefined
  }
  const sealedOf = ({ account, owner }: Omit<LentId, "sealed">): string | undefined =>
    (account === null ? tokens.get(owner) : grants.get(owner)?.get(account))?.sealed
  const tell = (owner: CallerName, account: string | null): void =>
    void news.set(JSON.stringify([owner, account]), { owner, account })
  const put = (owner: CallerName, grant: StoredGrant): void => {
    const own = grants.get(owner) ?? new Map<string, StoredGrant>()
    grants.set(owner, own.set(grant.account, grant))
  }
  return {
    keepToken: (owner, token, isWanted) =>
      Effect.sync(() => {
        for (const [name, { until }] of tokens) {
          if (until + Duration.toMillis(wantedFor) <= token.now) tokens.delete(name)
        }
        const kept = tokens.get(owner)
        if (kept === undefined && !isWanted) return false
        if (kept === undefined || kept.until < token.until) {
          tokens.set(owner, token)
          tell(owner, null)
        }
        return true
      }),
    token: (owner, now) =>
      Effect.sync(() =>
        Option.fromNullishOr(tokens.get(owner)).pipe(
          Option.filter(({ until }) => until > now),
          Option.map(({ sealed }) => sealed)
        )
      ),
    connect: ({ account, owner }, { now, ...grant }) =>
      Effect.sync(() => {
        put(owner, { ...grant, account, connected_at: now, claimed_at: null })
        tell(owner, account)
      }),
    news: Effect.sync(() =>
      Array.from(news.values()).flatMap((lent) => {
        const sealed = sealedOf(lent)
        return sealed === undefined ? [] : [{ ...lent, sealed }]
      })
    ),
    heard: ({ account, owner, sealed }) =>
      Effect.sync(() => {
        if (sealedOf({ account, owner }) === sealed) news.delete(JSON.stringify([owner, account]))
      }),
    grants: (owner, account) =>
      Effect.sync(() =>
        Array.from(grants.get(owner)?.values() ?? [])
          .filter((grant) => account === undefined || grant.account === account)
          .sort((one, other) => (one.account < other.account ? -1 : 1))
      ),
    claim: (id, now) =>
      Effect.sync(() => {
        const found = find(id)
        if (found === undefined || found.claimed_at !== null) return false
        put(id.owner, { ...found, claimed_at: now })
        return true
      }),
    release: (id, renewed) =>
      Effect.sync(() => {
        const found = find(id)
        if (found === undefined) return false
        put(id.owner, { ...found, ...renewed, claimed_at: null })
        return true
      }),
    disconnect: (id) => Effect.sync(() => find(id) !== undefined && grants.get(id.owner)?.delete(id.account) === true),
    useOnce: (digest, { now, until }) =>
      Effect.sync(() => {
        for (const [one, end] of used) if (end <= now) used.delete(one)
        if (used.has(digest)) return false
        used.set(digest, until)
        return true
      })
  }
})
