import { Context } from "effect"
import { uuidV7Unsafe } from "effect/crypto/SecureRandom"

/**
 * Where ids come from: UUIDs of version 7, each behind those that this process has made before, so that what a store adds stands at the end of its
 * indexes. They tell when they were made, and are no secrets. A test that needs the same ids on every run brings its own.
 */
export const UuidGenerator = Context.Reference<() => string>("@bowline/runtime/config/UuidGenerator", {
  defaultValue: () => () => uuidV7Unsafe()
})
