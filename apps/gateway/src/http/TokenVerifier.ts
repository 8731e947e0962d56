import { Context, type Effect, Option, type Redacted } from "effect"
import type { Refused } from "./Refusals.ts"
import type { TokenCaller } from "./TokenClaims.ts"

/** Whether a credential has the shape of a JSON Web Token (RFC 7519). */
export const isToken = (text: string): boolean => /^[\w-]+\.[\w-]+\.[\w-]*$/.test(text)

/** Whom a token speaks for, and until when: milliseconds since 1970. */
export interface VerifiedToken extends TokenCaller {
  readonly until: number
}

/** What verifies tokens of identity providers, where the configuration has any. What does so is loaded only then. */
export const TokenVerifier = Context.Reference<
  Option.Option<{ readonly verify: (token: Redacted.Redacted) => Effect.Effect<VerifiedToken, Refused> }>
>("@bowline/gateway/http/TokenVerifier", { defaultValue: () => Option.none() })
