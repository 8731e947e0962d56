import { NotFound } from "@bowline/domain/plan/Refusal"
import type { Stage } from "@bowline/domain/plan/Outcome"
import type { Credential } from "@bowline/domain/unstable/provider/Credential"
import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Context, Effect, Layer } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import { choose, windowFor } from "./CredentialChoice.ts"
import * as MemoryCredentialStore from "../memory/MemoryCredentialStore.ts"
import { type CredentialRow, CredentialStore } from "../store/CredentialStore.ts"
import { type ProviderCredential, Providers } from "../provider/Providers.ts"
import * as ProviderMetrics from "../telemetry/ProviderMetrics.ts"

export type { Credential }

/** The use of a credential for a model, which is named as `provider/model`. */
interface Use {
  readonly provider: string
  readonly credential: string
  readonly model: string
}

/**
 * The credential to ask with. `Exhausted`: none is free; one will be in `retryAfterMs` milliseconds, which is 0 if a free one is
 * to be avoided, and undefined if the provider is not configured.
 */
export type Picked =
  | { readonly _tag: "Picked"; readonly credential: ProviderCredential }
  | { readonly _tag: "Exhausted"; readonly retryAfterMs: number | undefined }

/** How old the stored time of a credential's last use may be, in milliseconds. */
const useGranularity = 10_000

/**
 * Chooses credentials, by what all replicas know of them. Contract: `docs/reference/provider.md`.
 *
 * @example
 * ```ts
 * import * as OpenAiProvider from "@bowline/provider-openai/provider/OpenAiProvider"
 * import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
 * import { Providers } from "@bowline/runtime/provider/Providers"
 * import { Layer, Redacted } from "effect"
 *
 * // Two keys of one provider: what puts one of them aside leaves the other.
 * const keys = [Redacted.make("first"), Redacted.make("second")]
 * const adapters = keys.map((apiKey) => OpenAiProvider.layerChat({ apiKey }))
 *
 * export const Pool = CredentialPool.layer.pipe(Layer.provide(Providers.layer(adapters)))
 * ```
 */
export class CredentialPool extends Context.Service<
  CredentialPool,
  {
    /**
     * Picks among the credentials that no window binds and that are not to be avoided: the preferred one, else the session's, else
     * the one that is unused for the longest time. The session keeps the choice, unless the caller preferred or avoided one.
     */
    readonly pick: (wanted: {
      readonly provider: string
      readonly model: string
      readonly session: SessionId
      /** The ids of credentials that failed in this step. */
      readonly avoid: ReadonlySet<string>
      readonly prefer?: string
    }) => Effect.Effect<Picked, StorageError>
    /** An attempt has failed in this stage of the plan. Opens the window that belongs to the failure, if any. */
    readonly failed: (
      use: Use & { readonly reason: ProviderErrorReason; readonly stage: Stage }
    ) => Effect.Effect<void, StorageError>
    /** An attempt has finished: the failures of its credential no longer count. Writes only if there are any, or every 10 s. */
    readonly succeeded: (use: Use) => Effect.Effect<void, StorageError>
    readonly list: Effect.Effect<ReadonlyArray<Credential>, StorageError>
    /** Ends the windows of a credential, and those of models that its provider did not have. Gives the credential. */
    readonly clear: (id: string) => Effect.Effect<Credential, NotFound | StorageError>
  }
>()("@bowline/runtime/asking/CredentialPool") {
  static readonly layer = Layer.effect(
    CredentialPool,
    Effect.gen(function* () {
      const providers = yield* Providers
      const store = yield* CredentialStore
      /** The choices of this process. The store does not have them yet when two plans choose at the same time. */
      const chosen = new Map<string, number>()
      const failures = new Failures()
      /** When this process last stored a use, on the `Monotonic` clock. */
      const stored = new Map<string, number>()

      const credentials = providers.all.flatMap(({ name, credentials }) =>
        credentials.map(({ id }) => ({ provider: name, id }))
      )

      return {
        pick: Effect.fnUntraced(function* ({ provider, model, session, avoid, prefer }) {
          const pool = providers.get(provider)?.credentials
          if (pool === undefined) return { _tag: "Exhausted", retryAfterMs: undefined }
          const { rows, sticky } = yield* store.read(provider, model, session)
          failures.read(rows)
          const lastUsed = (id: string) => Math.max(chosen.get(id) ?? 0, lastUseOf(rows, id) ?? 0)
          const ids = pool.map(({ id }) => id)
          const choice = choose(ids, rows, { model, prefer: prefer ?? sticky, avoid, lastUsed })
          if (choice._tag === "None") return { _tag: "Exhausted", retryAfterMs: choice.retryAfterMs }
          const { id } = choice
          if (pool.length > 1 && id !== sticky && avoid.size === 0 && prefer === undefined) {
            chosen.set(id, Math.max(...ids.map(lastUsed)) + 1)
            yield* store.choose(provider, id, session)
          }
          return { _tag: "Picked", credential: pool.find((credential) => credential.id === id) ?? pool[0] }
        }),
        failed: Effect.fnUntraced(function* ({ provider, credential, model, reason, stage }) {
          const window = windowFor(reason, stage)
          if (window === undefined) return
          const scope = {
            provider,
            credential: window.scope === "model" ? null : credential,
            model: window.scope === "credential" ? null : model
          }
          const isOpened = yield* store.open(scope, reason._tag, window.durations)
          failures.add(credential, scope.model)
          if (!isOpened) return
          yield* tellPutAside({ provider, credential, model }, reason, window.scope)
        }),
        succeeded: Effect.fnUntraced(function* ({ provider, credential, model }) {
          const now = yield* Monotonic.now
          if (!failures.has(credential, model) && now - (stored.get(credential) ?? -Infinity) < useGranularity) return
          stored.set(credential, now)
          yield* store.succeed(provider, credential, model)
          failures.forget(credential, model)
        }),
        list: Effect.map(store.list, (rows) => credentials.map(({ provider, id }) => show(provider, id, rows))),
        clear: Effect.fnUntraced(function* (id) {
          const known = credentials.find((credential) => credential.id === id)
          if (known === undefined) return yield* new NotFound({ what: "credential" })
          yield* store.clear(known.provider, id)
          return show(known.provider, id, yield* store.list)
        })
      }
    })
  )

  /** For an app with one provider. This process alone remembers what happens to its credential. */
  static readonly layerProvider = CredentialPool.layer.pipe(
    Layer.provide([Providers.layerProvider, MemoryCredentialStore.layer])
  )
}

/** The credentials with failures that count, as far as this process knows: with one model, or with all. */
class Failures {
  readonly #keys = new Set<string>()

  read(rows: ReadonlyArray<CredentialRow>): void {
    for (const { credential, model, failures } of rows) {
      if (credential === null) continue
      if (failures > 0) this.add(credential, model)
      else this.#keys.delete(keyOf(credential, model))
    }
  }

  add(credential: string, model: string | null): void {
    this.#keys.add(keyOf(credential, model))
  }

  has(credential: string, model: string): boolean {
    return this.#keys.has(keyOf(credential, null)) || this.#keys.has(keyOf(credential, model))
  }

  forget(credential: string, model: string): void {
    this.#keys.delete(keyOf(credential, null))
    this.#keys.delete(keyOf(credential, model))
  }
}

const keyOf = (credential: string, model: string | null): string => `${credential}\n${model ?? ""}`

const tellPutAside = Effect.fnUntraced(function* (
  { provider, credential, model }: Use,
  { _tag: error_type }: ProviderErrorReason,
  scope: string
) {
  yield* ProviderMetrics.credentialPutAside({ provider, model: model.slice(provider.length + 1) }, error_type)
  yield* Effect.annotateLogs(Effect.logWarning("credential_put_aside"), { error_type, scope, credential, model })
})

const lastUseOf = (rows: ReadonlyArray<CredentialRow>, id: string): number | null =>
  rows.find((row) => row.credential === id && row.model === null)?.lastUsed ?? null

/** A model that its provider does not have is shown with every credential, and changes the state of none. */
const show = (provider: string, id: string, rows: ReadonlyArray<CredentialRow>): Credential => {
  const own = rows.filter((row) => row.provider === provider && row.credential === id)
  const missing = rows.filter((row) => row.provider === provider && row.credential === null)
  const lastUsed = lastUseOf(own, id)
  return {
    id,
    provider,
    state: stateOf(own),
    windows: [...own, ...missing].flatMap(({ model, window }) =>
      window === null ? [] : [{ model, reason: window.reason, until: fromMillis(window.until) }]
    ),
    last_used_at: lastUsed === null ? null : fromMillis(lastUsed / 1_000)
  }
}

const stateOf = (rows: ReadonlyArray<CredentialRow>): Credential["state"] => {
  const bound = rows.filter(({ window }) => window !== null)
  return bound.length === 0 ? "ok" : bound.some(({ model }) => model === null) ? "out" : "cooldown"
}
