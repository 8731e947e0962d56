import type { Asker } from "@bowline/domain/unstable/caller/IssuedKey"
import { Context } from "effect"

/**
 * What is known of the caller who asks now, besides the name: it is stored with the plans that are started, since nobody knows it when another process
 * goes on with them.
 */
export const AskerFacts = Context.Reference<typeof Asker.Type>("@bowline/runtime/config/AskerFacts", {
  defaultValue: () => ({})
})
