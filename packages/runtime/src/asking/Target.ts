import { ModelUnavailable, ProviderError, RateLimited } from "@bowline/domain/provider/ProviderError"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect } from "effect"
import type { ProviderCredential } from "../provider/Providers.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { Asked } from "../telemetry/ProviderMetrics.ts"
import type { CredentialPool, Picked } from "./CredentialPool.ts"

/** Whom an attempt asks: a model as `provider/model`, with a credential. */
export interface Target {
  readonly model: string
  readonly credential: ProviderCredential
}

const providerOf = (model: string): string => model.slice(0, model.indexOf("/"))

/** The model as its provider calls it. */
export const ownName = (model: string): string => model.slice(model.indexOf("/") + 1)

/** The use of a target, for the pool. */
export const use = ({ model, credential }: Target) => ({
  provider: providerOf(model),
  credential: credential.id,
  model
})

/** The model as metrics name it. */
export const asked = (model: string): Asked => ({ provider: providerOf(model), model: ownName(model) })

/** Finds targets for the attempts of a session. */
export interface Targets {
  /** A free credential for the model, other than those to avoid; else the wait until one is free, if it is known. */
  readonly pick: (
    session: SessionId,
    model: string,
    avoid?: ReadonlySet<string>,
    prefer?: string
  ) => Effect.Effect<Picked, StorageError>
  /**
   * The target for the next attempt: the same one, unless a window binds its credential by now and another credential is free.
   * Credentials that the step has not tried come first.
   */
  readonly again: (
    session: SessionId,
    target: Target,
    tried: ReadonlySet<string>
  ) => Effect.Effect<Target, StorageError>
  /**
   * The first of the models that has a free credential. If none has, fails with the soonest time at which one will be free, or with
   * `model_unavailable` if no provider of these models is configured.
   */
  readonly first: (
    session: SessionId,
    models: ReadonlyArray<string>
  ) => Effect.Effect<Target, ProviderError | StorageError>
}

export const make = (pool: CredentialPool["Service"]): Targets => {
  const pick: Targets["pick"] = (session, model, avoid = new Set(), prefer) =>
    retryWhileAway(
      pool.pick({ provider: providerOf(model), model, session, avoid, ...(prefer === undefined ? {} : { prefer }) })
    )

  return {
    pick,
    again: Effect.fnUntraced(function* (session, target, tried) {
      const { model, credential } = target
      const others = new Set(tried)
      others.delete(credential.id)
      for (const avoid of others.size === 0 ? [others] : [others, new Set<string>()]) {
        const picked = yield* pick(session, model, avoid, credential.id)
        if (picked._tag === "Picked") return { model, credential: picked.credential }
      }
      return target
    }),
    first: Effect.fnUntraced(function* (session, models) {
      const waits: Array<number> = []
      for (const model of models) {
        const picked = yield* pick(session, model)
        if (picked._tag === "Picked") return { model, credential: picked.credential }
        if (picked.retryAfterMs !== undefined) waits.push(picked.retryAfterMs)
      }
      const names = models.join(", ")
      if (waits.length === 0) {
        const message = `No provider of ${names} is configured. A model is named provider/model`
        return yield* new ProviderError({ reason: new ModelUnavailable({ message }) })
      }
      const message = `No credential is free for ${names}`
      return yield* new ProviderError({ reason: new RateLimited({ message, retryAfterMs: Math.min(...waits) }) })
    })
  }
}
