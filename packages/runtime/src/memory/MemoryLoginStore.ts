import { Effect, Layer, Option } from "effect"
import { LruCache } from "../process/LruCache.ts"
import { LoginStore, type StoredLogin } from "../store/LoginStore.ts"

/** Above, the logins go that nobody has used for the longest time. */
const maxLogins = 10_000

/** Keeps logins in this process only. */
export const layer: Layer.Layer<LoginStore> = Layer.sync(LoginStore, () => {
  const logins = new LruCache<string, StoredLogin & { readonly until: number }>(maxLogins)
  return {
    keep: (digest, { now, subject = null, until }) =>
      Effect.sync(() => {
        for (const kept of logins.keys) if ((logins.peek(kept)?.until ?? now) <= now) logins.delete(kept)
        logins.set(digest, { digest, subject, until })
      }),
    find: (digests, now) =>
      Effect.sync(() => {
        const found = digests.flatMap((digest) => logins.get(digest) ?? []).find(({ until }) => until > now)
        return Option.map(Option.fromNullishOr(found), ({ digest, subject }) => ({ digest, subject }))
      }),
    drop: (digests) => Effect.sync(() => digests.forEach((digest) => logins.delete(digest)))
  }
})
