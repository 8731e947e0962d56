import { Context, Effect, Option, type Redacted } from "effect"

/**
 * The variables of the environment that a request's `env_var` may name. None, unless the app says so.
 *
 * @example
 * ```ts
 * import { EnvironmentSecrets } from "@bowline/runtime/config/EnvironmentSecrets"
 * import { Effect, Layer, Option, Redacted } from "effect"
 *
 * // Requests may name `RIGGER_TOKEN`, and no other variable.
 * const isAllowed = (name: string) => name === "RIGGER_TOKEN"
 *
 * export const Secrets = Layer.succeed(EnvironmentSecrets, {
 *   isAllowed,
 *   get: (name) =>
 *     Effect.sync(() =>
 *       Option.map(Option.fromNullishOr(isAllowed(name) ? process.env[name] : undefined), (value) => Redacted.make(value))
 *     )
 * })
 * ```
 */
export const EnvironmentSecrets = Context.Reference<{
  readonly isAllowed: (name: string) => boolean
  /** None when the variable is not set, or not allowed. */
  readonly get: (name: string) => Effect.Effect<Option.Option<Redacted.Redacted>>
}>("@bowline/runtime/config/EnvironmentSecrets", {
  defaultValue: () => ({ isAllowed: () => false, get: () => Effect.succeedNone })
})
