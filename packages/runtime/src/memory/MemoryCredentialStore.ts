import { Array as Arrays, Clock, Effect, Layer } from "effect"
import { LruCache } from "../process/LruCache.ts"
import { type CredentialRow, CredentialStore, type WindowScope } from "../store/CredentialStore.ts"

interface Entry extends WindowScope {
  reason: string
  key: string | null
  since: number
  until: number
  failures: number
  lastUsed: number | null
  succeeded: number | null
}

/** Of how many sessions the credential is remembered that they prefer. */
const stickySessions = 10_000

/** How many scopes are remembered: the oldest ones are forgotten. */
const maxEntries = 1_000

/** How long a scope is remembered without a window, in milliseconds. */
const idleTime = 7 * 24 * 60 * 60_000

const show = ({ until, succeeded, since, reason, ...entry }: Entry, now: number): CredentialRow => ({
  ...entry,
  window: until > now ? { reason, since, until, leftMs: until - now } : null,
  succeededMs: succeeded === null ? null : now - succeeded
})

const isOther = (one: string | null, other: string | null): boolean => one !== null && other !== null && one !== other

/** Keeps windows of credentials in this process only. */
export const make = (): CredentialStore["Service"] => {
  const entries = new Map<string, Entry>()
  const sticky = new LruCache<string, string>(stickySessions)
  let lastUse = 0

  const fresh = { reason: "", since: 0, until: 0, failures: 0, succeeded: null }

  /** The entry of the scope. What belongs to another key is forgotten. */
  const entryOf = (scope: WindowScope): Entry => {
    const id = JSON.stringify([scope.provider, scope.credential, scope.model])
    const found = entries.get(id)
    if (found !== undefined) return isOther(found.key, scope.key) ? Object.assign(found, fresh, scope) : found
    const [oldest] = entries.keys()
    if (oldest !== undefined && entries.size >= maxEntries) entries.delete(oldest)
    const entry: Entry = { ...scope, ...fresh, lastUsed: null }
    entries.set(id, entry)
    return entry
  }

  /** All entries, without those that have been idle for too long. */
  const current = (now: number): ReadonlyArray<Entry> => {
    for (const [id, { lastUsed, until }] of entries) {
      if (Math.max(until, (lastUsed ?? 0) / 1_000) < now - idleTime) entries.delete(id)
    }
    return Array.from(entries.values())
  }

  const use = (provider: string, credential: string, key: string | null, now: number): Entry => {
    // Two uses in one millisecond still have an order.
    lastUse = Math.max(lastUse + 1, now * 1_000)
    return Object.assign(entryOf({ provider, credential, model: null, key }), { lastUsed: lastUse })
  }

  const stickyKey = (provider: string, session: string) => `${session}\n${provider}`

  return {
    // Nothing of it is kept where somebody else could read it.
    salt: "",
    read: (provider, model, session) =>
      Effect.map(Clock.currentTimeMillis, (now) => ({
        rows: current(now)
          .filter((entry) => entry.provider === provider && (entry.model === null || entry.model === model))
          .map((entry) => show(entry, now)),
        sticky: sticky.get(stickyKey(provider, session)) ?? null
      })),
    list: Effect.map(Clock.currentTimeMillis, (now) => current(now).map((entry) => show(entry, now))),
    open: (scope, reason, durations) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const entry = entryOf(scope)
        if (entry.until > now) return false
        entry.failures = scope.model !== null || entry.reason === reason ? entry.failures + 1 : 1
        entry.reason = reason
        entry.key = scope.key
        entry.since = now
        entry.until = now + (durations[entry.failures - 1] ?? Arrays.lastNonEmpty(durations))
        return true
      }),
    choose: (provider, credential, session) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        sticky.set(stickyKey(provider, session), credential)
        use(provider, credential, null, now)
      }),
    succeed: ({ provider, credential, key }, model) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        Object.assign(use(provider, credential, key, now), { failures: 0, key, succeeded: now })
        const ofModel = entries.get(JSON.stringify([provider, credential, model]))
        if (ofModel !== undefined) ofModel.failures = 0
      }),
    clear: (provider, credential) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        for (const entry of entries.values()) {
          if (entry.provider === provider && (entry.credential === credential || entry.credential === null)) {
            entry.until = Math.min(entry.until, now)
            entry.failures = 0
          }
        }
      })
  }
}

export const layer: Layer.Layer<CredentialStore> = Layer.sync(CredentialStore, make)
