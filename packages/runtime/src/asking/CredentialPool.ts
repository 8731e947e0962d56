import { NotFound } from "@bowline/domain/plan/Refusal"
import type { Stage } from "@bowline/domain/plan/Outcome"
import type { Credential } from "@bowline/domain/unstable/provider/Credential"
import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Context, Effect, Layer } from "effect"
import { NamedModels } from "../config/NamedModels.ts"
import * as Monotonic from "../process/Monotonic.ts"
import { choose } from "./CredentialChoice.ts"
import { type Binding, judged, windowFor } from "./CredentialWindow.ts"
import * as MemoryCredentialStore from "../memory/MemoryCredentialStore.ts"
import { type CredentialRow, CredentialStore } from "../store/CredentialStore.ts"
import { type ProviderCredential, Providers } from "../provider/Providers.ts"
import * as ProviderMetrics from "../telemetry/ProviderMetrics.ts"

export type { Binding, Credential }

/** The use of a credential for a model, which is named as `provider/model`. */
interface Use {
  readonly provider: string
  readonly credential: string
  readonly model: string
}

/**
 * The credential to ask with. `Exhausted`: `binding` is the window that keeps the plan from asking; without one a free credential is to be
 * avoided, or the provider is not configured. `isTried`: all credentials are to be avoided.
 */
export type Picked =
  | { readonly _tag: "Picked"; readonly credential: ProviderCredential }
  | { readonly _tag: "Exhausted"; readonly binding: Binding | undefined; readonly isTried: boolean }

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
    /** What a failure means, by what the credential has done before. */
    readonly judge: (use: Use, reason: ProviderErrorReason) => Effect.Effect<ProviderErrorReason>
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

      /** When a credential last succeeded in this process, on the `Monotonic` clock. */
      const succeededAt = new Map<string, number>()
      const isNamed = yield* NamedModels
      /** Windows of models that nobody has configured. Callers may name any number of them, so no row is left of these. */
      const local = MemoryCredentialStore.make()
      const storeOf = (model: string | null) => (model === null || isNamed(model) ? store : local)
      const keyOf = makeKeys(providers, store.salt)
      const toOwn = (rows: ReadonlyArray<CredentialRow>) => rows.map((row) => ofKey(row, keyOf(row)))

      const credentials = providers.all.flatMap(({ name, credentials }) =>
        credentials.map(({ id }) => ({ provider: name, id }))
      )
      const list = Effect.map(Effect.all([store.list, local.list]), ([stored, own]) =>
        toOwn([...stored, ...own.filter(({ model }) => model !== null)])
      )

      return {
        pick: Effect.fnUntraced(function* ({ provider, model, session, avoid, prefer }) {
          const pool = providers.get(provider)?.credentials
          if (pool === undefined) return { _tag: "Exhausted", binding: undefined, isTried: false }
          const { rows: stored, sticky } = yield* store.read(provider, model, session)
          const rows = toOwn([...stored, ...(isNamed(model) ? [] : yield* rowsOf(local, provider, model, session))])
          failures.read(rows)
          const lastUsed = (id: string) => Math.max(chosen.get(id) ?? 0, lastUseOf(rows, id) ?? 0)
          const ids = pool.map(({ id }) => id)
          const choice = choose(ids, rows, { model, prefer: prefer ?? sticky, avoid, lastUsed })
          if (choice._tag === "None") {
            return { _tag: "Exhausted", binding: choice.binding, isTried: ids.every((id) => avoid.has(id)) }
          }
          const { id } = choice
          if (pool.length > 1 && id !== sticky && avoid.size === 0 && prefer === undefined) {
            chosen.set(id, Math.max(...ids.map(lastUsed)) + 1)
            yield* store.choose(provider, id, session)
          }
          return { _tag: "Picked", credential: pool.find((credential) => credential.id === id) ?? pool[0] }
        }),
        judge: Effect.fnUntraced(function* ({ credential }, reason) {
          if (!("isUnexplained" in reason)) return reason
          // Without an answer of the store, what this process knows has to do.
          const rows = yield* Effect.orElseSucceed(list, () => [])
          const stored = rows.find((row) => row.credential === credential && row.model === null)?.succeededMs
          const own = (yield* Monotonic.now) - (succeededAt.get(credential) ?? -Infinity)
          return judged(reason, Math.min(stored ?? Infinity, own))
        }),
        failed: Effect.fnUntraced(function* ({ provider, credential, model, reason, stage }) {
          const window = windowFor(reason, stage)
          if (window === undefined) return
          const scope = {
            provider,
            credential: window.scope === "model" ? null : credential,
            model: window.scope === "credential" ? null : model
          }
          const keyed = { ...scope, key: keyOf(scope) }
          const isOpened = yield* storeOf(scope.model).open(keyed, reason._tag, window.durations)
          failures.add(credential, scope.model)
          if (!isOpened) return
          yield* tellPutAside({ provider, credential, model }, reason, window.scope)
        }),
        succeeded: Effect.fnUntraced(function* ({ provider, credential, model }) {
          const now = yield* Monotonic.now
          succeededAt.set(credential, now)
          if (!failures.has(credential, model) && now - (stored.get(credential) ?? -Infinity) < useGranularity) return
          stored.set(credential, now)
          const used = { provider, credential, key: keyOf({ provider, credential }) }
          yield* store.succeed(used, model)
          if (!isNamed(model)) yield* local.succeed(used, model)
          failures.forget(credential, model)
        }),
        list: Effect.map(list, (rows) => credentials.map(({ provider, id }) => show(provider, id, rows))),
        clear: Effect.fnUntraced(function* (id) {
          const known = credentials.find((credential) => credential.id === id)
          if (known === undefined) return yield* new NotFound({ what: "credential" })
          for (const { clear } of [store, local]) yield* clear(known.provider, id)
          return show(known.provider, id, yield* list)
        })
      }
    })
  )

  /** For an app with one provider. This process alone remembers what happens to its credential. */
  static readonly layerProvider = CredentialPool.layer.pipe(
    Layer.provide([Providers.layerProvider, MemoryCredentialStore.layer])
  )
}

type Keyed = Pick<CredentialRow, "provider" | "credential">

/** The digests of keys by credential, and of all keys of a provider together; null where no adapter gives one. */
const makeKeys = (providers: Providers["Service"], salt: string): ((scope: Keyed) => string | null) => {
  const ofCredentials = new Map<string, string>()
  const ofProviders = new Map<string, string>()
  for (const { credentials, name } of providers.all) {
    const digests = credentials.flatMap(({ id, provider }) => provider.keyDigest?.(`${salt} ${id}`) ?? [])
    if (digests.length < credentials.length) continue
    credentials.forEach(({ id }, index) => ofCredentials.set(id, digests[index] ?? ""))
    ofProviders.set(name, digests.join(" "))
  }
  return ({ credential, provider }) =>
    (credential === null ? ofProviders.get(provider) : ofCredentials.get(credential)) ?? null
}

/** What is known of a credential with this key: of another key, only when the credential was used. */
const ofKey = (row: CredentialRow, key: string | null): CredentialRow =>
  row.key === null || key === null || row.key === key ? row : { ...row, window: null, failures: 0, succeededMs: null }

const rowsOf = (store: CredentialStore["Service"], provider: string, model: string, session: SessionId) =>
  Effect.map(store.read(provider, model, session), ({ rows }) => rows.filter((row) => row.model !== null))

/** The credentials with failures that count, as far as this process knows: with one model, or with all. */
class Failures {
  readonly #keys = new Set<string>()

  read(rows: ReadonlyArray<CredentialRow>): void {
    for (const { credential, model, failures } of rows) {
      if (credential === null) continue
      if (failures > 0) this.add(credential, model)
      else this.#keys.delete(nameOf(credential, model))
    }
  }

  add(credential: string, model: string | null): void {
    this.#keys.add(nameOf(credential, model))
  }

  has(credential: string, model: string): boolean {
    return this.#keys.has(nameOf(credential, null)) || this.#keys.has(nameOf(credential, model))
  }

  forget(credential: string, model: string): void {
    this.#keys.delete(nameOf(credential, null))
    this.#keys.delete(nameOf(credential, model))
  }
}

const nameOf = (credential: string, model: string | null): string => `${credential}\n${model ?? ""}`

const tellPutAside = Effect.fnUntraced(function* (
  { provider, credential, model }: Use,
  { _tag: error_type }: ProviderErrorReason,
  scope: string
) {
  yield* ProviderMetrics.credentialBlocked({ provider, model: model.slice(provider.length + 1) }, error_type)
  yield* Effect.annotateLogs(Effect.logWarning("credential_blocked"), { error_type, scope, credential, model })
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
