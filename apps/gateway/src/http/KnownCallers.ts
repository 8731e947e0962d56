import type { CallerName } from "@bowline/domain/caller/CallerName"
import { Effect, Redacted } from "effect"
import { createHash, timingSafeEqual } from "node:crypto"
import { GatewayConfig } from "../config/GatewayConfig.ts"

/** A key of the configuration, by its SHA-256 digest. */
export interface KnownCaller {
  readonly name: CallerName
  readonly digest: Buffer
}

const digestOf = (key: Redacted.Redacted): Buffer => createHash("sha256").update(Redacted.value(key)).digest()

/** The callers of the configuration. Without any the gateway is open. */
export const all: Effect.Effect<ReadonlyArray<KnownCaller>, never, GatewayConfig> = Effect.map(
  GatewayConfig,
  ({ callerKeys }) => callerKeys.map(({ name, key }) => ({ name, digest: digestOf(key) }))
)

/** The one that has this key. Every key is compared, in constant time. */
export const find = (known: ReadonlyArray<KnownCaller>, key: Redacted.Redacted): KnownCaller | undefined => {
  const digest = digestOf(key)
  return known.filter((caller) => timingSafeEqual(caller.digest, digest))[0]
}
