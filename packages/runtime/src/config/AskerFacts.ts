import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Asker } from "@bowline/domain/unstable/caller/IssuedKey"
import { Context, type Redacted } from "effect"

/**
 * What is known of the caller who asks now, besides the name: it is stored with the plans that are started, since nobody knows it when another process
 * goes on with them.
 */
export const AskerFacts = Context.Reference<typeof Asker.Type>("@bowline/runtime/config/AskerFacts", {
  defaultValue: () => ({})
})

/** A token of an identity provider: whose it is, and until when it is valid, in milliseconds since 1970. */
export interface CallerToken {
  readonly caller: CallerName
  readonly value: Redacted.Redacted
  readonly until: number
}

/** The token with which the caller who asks now has come, if it has. */
export const ArrivedToken = Context.Reference<CallerToken | undefined>("@bowline/runtime/config/ArrivedToken", {
  defaultValue: () => undefined
})

/** The host that the request was sent to, as its `Host` says: another name of the gateway beside its public URL. */
export const ArrivedHost = Context.Reference<string | undefined>("@bowline/runtime/config/ArrivedHost", {
  defaultValue: () => undefined
})
