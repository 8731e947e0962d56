import { Context, Effect, Option, type Redacted } from "effect"

/** The variables of the environment that a request's `env_var` may name. None, unless the app says so. */
export const EnvironmentSecrets = Context.Reference<{
  readonly isAllowed: (name: string) => boolean
  /** None when the variable is not set, or not allowed. */
  readonly get: (name: string) => Effect.Effect<Option.Option<Redacted.Redacted>>
}>("@bowline/runtime/config/EnvironmentSecrets", {
  defaultValue: () => ({ isAllowed: () => false, get: () => Effect.succeedNone })
})
