import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { IssuedKey } from "@bowline/domain/unstable/caller/IssuedKey"
import { MayFire } from "@bowline/runtime/unstable/schedule/Firings"
import { KeyStore } from "@bowline/runtime/unstable/store/KeyStore"
import type { Page, PageRequest } from "@bowline/runtime/unstable/store/Page"
import { Clock, Duration, Effect, Layer } from "effect"
import * as RateLimiter from "effect/persistence/RateLimiter"
import { GatewayConfig } from "../config/GatewayConfig.ts"

/** How long the callers of keys that admins have made are not looked up again, and how many keys are read at once. */
const keptFor = "5 seconds"
const pageSize = 200

/** Who has a key that an admin has made, and that is good. */
const issued = Effect.gen(function* () {
  const store = yield* KeyStore
  return yield* Effect.cachedWithTTL(
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const names = new Set<CallerName>()
      for (let page: PageRequest | undefined = { limit: pageSize }; page !== undefined;) {
        const { items, next }: Page<IssuedKey> = yield* store.list(page)
        for (const { expires_at, name } of items) {
          if (expires_at === null || Date.parse(expires_at) > now) names.add(name)
        }
        page = next === null ? undefined : { limit: pageSize, cursor: next }
      }
      return names
    }),
    keptFor
  )
})

/**
 * A firing is a request of its caller, who has to have a key still, and among whose requests it counts. Whom an identity provider vouches for (`issuer:subject`) has none. If the
 * store of the counts does not answer, nobody is refused.
 */
export const layer = Layer.effect(
  MayFire,
  Effect.gen(function* () {
    const { callerKeys, rateLimit } = yield* GatewayConfig
    const limiter = yield* RateLimiter.make
    const withKey = yield* issued
    const configured = new Set(callerKeys.map(({ name }) => name))
    const isKnown = (caller: CallerName) =>
      configured.size === 0 || configured.has(caller) || caller.includes(":")
        ? Effect.succeed(true)
        : Effect.map(withKey, (names) => names.has(caller))

    return Effect.fnUntraced(function* (caller) {
      if (!(yield* isKnown(caller))) return `the gateway does not know ${caller} any more`
      if (rateLimit === undefined) return undefined
      const [limit, window] = rateLimit
      return yield* limiter.consume({ key: caller, limit, window, tokens: 1 }).pipe(
        Effect.as(undefined),
        Effect.catch(({ reason }) =>
          Effect.succeed(
            reason._tag === "RateLimitStoreError"
              ? undefined
              : `${caller} may make ${limit} requests in ${Duration.format(window)}`
          )
        )
      )
    })
  })
)
