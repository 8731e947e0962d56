import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Context, Effect, Layer, Option, Redacted } from "effect"
import type { CallerToken } from "../config/AskerFacts.ts"
import { AccountStore } from "../store/AccountStore.ts"
import { SecretKey } from "../store/SecretKey.ts"
import { seal, unseal } from "../store/Sealing.ts"

/** The caller as whom requests to agents and MCP servers are made, where they are made as somebody. Nobody, unless whoever runs something of a caller says so. */
export const OnBehalfOf = Context.Reference<CallerName | undefined>("@bowline/runtime/auth/OnBehalfOf", {
  defaultValue: () => undefined
})

/** Whether callers have names that an identity provider has vouched for: the others come with keys, and have no tokens. */
export const hasTokens = (caller: CallerName): boolean => caller.includes(":")

/** The tokens with which callers have come, for plans that act as them. None, unless the app keeps some. */
export const CallerTokens = Context.Reference<{
  /** Whether tokens are kept at all. */
  readonly areKept: boolean
  /** Keeps a token for the plans of its caller, if they want one, or if it `isWanted` now. Says whether one of the caller is kept. */
  readonly keep: (token: CallerToken, isWanted: boolean) => Effect.Effect<boolean, StorageError>
  /** The newest token of a caller that is valid. */
  readonly newest: (caller: CallerName) => Effect.Effect<Option.Option<Redacted.Redacted>, StorageError>
}>("@bowline/runtime/auth/CallerTokens", {
  defaultValue: () => ({
    areKept: false,
    keep: () => Effect.succeed(false),
    newest: () => Effect.succeedNone
  })
})

const belonging = (caller: CallerName): string => `caller_token ${caller}`

/** Keeps the tokens of callers encrypted in the store: only where there is a key for that. */
export const layer = Layer.effect(
  CallerTokens,
  Effect.gen(function* () {
    const store = yield* AccountStore
    const key = yield* SecretKey
    if (Option.isNone(key)) return yield* CallerTokens
    return {
      areKept: true,
      keep: Effect.fnUntraced(function* ({ caller, until, value }, isWanted) {
        const sealed = seal(Redacted.value(value), belonging(caller), key.value)
        return yield* store.keepToken(caller, { sealed, until, now: yield* Clock.currentTimeMillis }, isWanted)
      }),
      newest: Effect.fnUntraced(function* (caller) {
        const sealed = yield* store.token(caller, yield* Clock.currentTimeMillis)
        return Option.map(
          Option.flatMap(sealed, (text) => unseal(text, belonging(caller), key.value)),
          (token) => Redacted.make(token)
        )
      })
    }
  })
)
