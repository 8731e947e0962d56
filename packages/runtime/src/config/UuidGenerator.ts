import { Context } from "effect"
import { randomUUID } from "node:crypto"

/** Where ids come from. A test that needs the same ids on every run brings its own. */
export const UuidGenerator = Context.Reference<() => string>("@bowline/runtime/config/UuidGenerator", {
  defaultValue: () => randomUUID
})
