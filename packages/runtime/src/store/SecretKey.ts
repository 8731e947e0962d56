import { Context, Option } from "effect"
import type { SealingKey } from "./Sealing.ts"

export type { SealingKey }

/**
 * The key of 32 bytes that encrypts the secrets of running plans, and of places that are notified (operations.md, `BOWLINE_SECRET_KEY`). Without it no secret is stored.
 *
 * @example
 * ```ts
 * import { SecretKey } from "@bowline/runtime/store/SecretKey"
 * import { Effect, Option } from "effect"
 *
 * export const isSet = Effect.map(SecretKey, Option.isSome)
 * ```
 */
export const SecretKey = Context.Reference<Option.Option<SealingKey>>("@bowline/runtime/store/SecretKey", {
  defaultValue: () => Option.none()
})
