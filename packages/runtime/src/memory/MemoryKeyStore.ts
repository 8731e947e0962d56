import type { IssuedKey, KeyId } from "@bowline/domain/unstable/caller/IssuedKey"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Effect, Layer, Option } from "effect"
import { KeyStore, minuteOf } from "../store/KeyStore.ts"
import { newestFirst } from "./internal/NewestFirst.ts"

/** Keeps keys in this process only. */
export const layer: Layer.Layer<KeyStore> = Layer.sync(KeyStore, () => {
  const keys = new Map<KeyId, { key: IssuedKey; readonly digest: string; readonly ordinal: number }>()
  let made = 0
  return {
    add: ({ digest, ...key }) =>
      Effect.sync(() => void keys.set(key.key_id, { key: { ...key, last_used_at: null }, digest, ordinal: ++made })),
    find: (digest, now) =>
      Effect.sync(() => {
        const found = Array.from(keys.values()).find((one) => one.digest === digest)
        if (found === undefined) return Option.none()
        const { expires_at } = found.key
        if (expires_at !== null && Date.parse(expires_at) <= now) return Option.none()
        found.key = { ...found.key, last_used_at: fromMillis(minuteOf(now)) }
        return Option.some(found.key)
      }),
    list: (page) => Effect.sync(() => newestFirst(keys.values(), page, ({ key }) => key)),
    revoke: (id) =>
      Effect.sync(() => {
        const found = keys.get(id)
        keys.delete(id)
        return Option.map(Option.fromNullishOr(found), ({ key }) => key)
      })
  }
})
