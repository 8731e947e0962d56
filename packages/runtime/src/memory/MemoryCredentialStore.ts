import { Array as Arrays, Clock, Effect, Layer } from "effect"
import { LruCache } from "../process/LruCache.ts"
import { type CredentialRow, CredentialStore, type WindowScope } from "../store/CredentialStore.ts"

interface Entry extends WindowScope {
  reason: string
  until: number
  failures: number
  lastUsed: number | null
}

/** Of how many sessions the credential is remembered that they prefer. */
const stickySessions = 10_000

const show = (
  { provider, credential, model, reason, until, failures, lastUsed }: Entry,
  now: number
): CredentialRow => ({
  provider,
  credential,
  model,
  window: until > now ? { reason, until, leftMs: until - now } : null,
  failures,
  lastUsed
})

/** Keeps windows of credentials in this process only. */
export const layer: Layer.Layer<CredentialStore> = Layer.sync(CredentialStore, () => {
  const entries = new Map<string, Entry>()
  const sticky = new LruCache<string, string>(stickySessions)
  let lastUse = 0

  const entryOf = (scope: WindowScope): Entry => {
    const key = JSON.stringify([scope.provider, scope.credential, scope.model])
    const entry = entries.get(key) ?? { ...scope, reason: "", until: 0, failures: 0, lastUsed: null }
    entries.set(key, entry)
    return entry
  }

  const entriesOf = (provider: string, credential: string) =>
    Array.from(entries.values()).filter((entry) => entry.provider === provider && entry.credential === credential)

  const use = (provider: string, credential: string, now: number) => {
    // Two uses in one millisecond still have an order.
    lastUse = Math.max(lastUse + 1, now * 1_000)
    entryOf({ provider, credential, model: null }).lastUsed = lastUse
  }

  const stickyKey = (provider: string, session: string) => `${session}\n${provider}`

  return {
    read: (provider, model, session) =>
      Effect.map(Clock.currentTimeMillis, (now) => ({
        rows: Array.from(entries.values())
          .filter((entry) => entry.provider === provider && (entry.model === null || entry.model === model))
          .map((entry) => show(entry, now)),
        sticky: sticky.get(stickyKey(provider, session)) ?? null
      })),
    list: Effect.map(Clock.currentTimeMillis, (now) => Array.from(entries.values(), (entry) => show(entry, now))),
    open: (scope, reason, durations) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const entry = entryOf(scope)
        if (entry.until > now) return false
        entry.failures = scope.model !== null || entry.reason === reason ? entry.failures + 1 : 1
        entry.reason = reason
        entry.until = now + (durations[entry.failures - 1] ?? Arrays.lastNonEmpty(durations))
        return true
      }),
    choose: (provider, credential, session) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        sticky.set(stickyKey(provider, session), credential)
        use(provider, credential, now)
      }),
    succeed: (provider, credential, model) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        use(provider, credential, now)
        for (const entry of entriesOf(provider, credential)) {
          if (entry.model === null || entry.model === model) entry.failures = 0
        }
      }),
    clear: (provider, credential) =>
      Effect.sync(() => {
        for (const entry of entries.values()) {
          if (entry.provider === provider && (entry.credential === credential || entry.credential === null)) {
            entry.until = 0
            entry.failures = 0
          }
        }
      })
  }
})
