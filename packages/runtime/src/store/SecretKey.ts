import { Context, Option } from "effect"
import type { SealingKey } from "./Sealing.ts"

export type { SealingKey }

/**
 * The key of 32 bytes that encrypts the secrets of running plans, and of places that are notified. Without it no secret is stored: a plan
 * whose request brought one is not resumed by another process.
 *
 * @example
 * ```ts
 * import { SecretKey } from "@bowline/runtime/store/SecretKey"
 * import { Config, Effect, Layer, Option, Redacted } from "effect"
 *
 * // Of a variable in base64: `openssl rand -base64 32`.
 * export const Key = Layer.effect(
 *   SecretKey,
 *   Effect.map(Config.Redacted("SECRET_KEY"), (text) =>
 *     Option.some(Redacted.make(Uint8Array.from(Buffer.from(Redacted.value(text), "base64"))))
 *   )
 * )
 * ```
 */
export const SecretKey = Context.Reference<Option.Option<SealingKey>>("@bowline/runtime/store/SecretKey", {
  defaultValue: () => Option.none()
})
