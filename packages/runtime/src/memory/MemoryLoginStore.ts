import { Effect, Layer, Option } from "effect"
import { LruCache } from "../process/LruCache.ts"
import { LoginStore } from "../store/LoginStore.ts"

/** Above, the logins go that nobody has used for the longest time. */
const maxLogins = 10_000

/** Keeps logins in this process only. */
export const layer: Layer.Layer<LoginStore> = Layer.sync(LoginStore, () => {
  const logins = new LruCache<string, number>(maxLogins)
  return {
    keep: (digest, { now, until }) =>
      Effect.sync(() => {
        for (const kept of logins.keys) if ((logins.peek(kept) ?? now) <= now) logins.delete(kept)
        logins.set(digest, until)
      }),
    find: (digests, now) =>
      Effect.sync(() => Option.fromNullishOr(digests.find((digest) => (logins.get(digest) ?? now) > now))),
    drop: (digests) => Effect.sync(() => digests.forEach((digest) => logins.delete(digest)))
  }
})
