import { ModelUnavailable, ProviderError } from "@bowline/domain/provider/ProviderError"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect } from "effect"
import type { ProviderCredential } from "../provider/Providers.ts"
import type { Looks } from "../record/BlockedRecord.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { Asked } from "../telemetry/ProviderMetrics.ts"
import type { CredentialPool, Picked } from "./CredentialPool.ts"
import { type Binding, refusal, soonest } from "./CredentialWindow.ts"

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

/** For whom a credential is looked for. */
export interface Seeker {
  readonly session: SessionId
  /** Of a plan: what it finds. */
  readonly looks?: Looks
}

/** Finds targets for the attempts of a session. */
export interface Targets {
  /** A free credential for the model, other than those to avoid; else the window that keeps the plan from asking, if there is one. */
  readonly pick: (
    seeker: Seeker,
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
   * The first of the models that has a free credential. If none has, fails with what the window was opened for that ends first, or with
   * `model_unavailable` if no provider of these models is configured.
   */
  readonly first: (seeker: Seeker, models: ReadonlyArray<string>) => Effect.Effect<Target, ProviderError | StorageError>
}

export const make = (pool: CredentialPool["Service"]): Targets => {
  const pick: Targets["pick"] = ({ looks, session }, model, avoid = new Set(), prefer) => {
    const wanted = { provider: providerOf(model), model, session, avoid, ...(prefer === undefined ? {} : { prefer }) }
    return Effect.tap(retryWhileAway(pool.pick(wanted)), (picked) =>
      Effect.sync(() => {
        if (picked._tag === "Picked") looks?.found()
        else looks?.foundNone(model, picked.binding, picked.isTried)
      })
    )
  }

  return {
    pick,
    again: Effect.fnUntraced(function* (session, target, tried) {
      const { model, credential } = target
      const others = new Set(tried)
      others.delete(credential.id)
      for (const avoid of others.size === 0 ? [others] : [others, new Set<string>()]) {
        const picked = yield* pick({ session }, model, avoid, credential.id)
        if (picked._tag === "Picked") return { model, credential: picked.credential }
      }
      return target
    }),
    first: Effect.fnUntraced(function* (seeker, models) {
      const bindings: Array<Binding> = []
      for (const model of models) {
        const picked = yield* pick(seeker, model)
        if (picked._tag === "Picked") return { model, credential: picked.credential }
        if (picked.binding !== undefined) bindings.push(picked.binding)
      }
      const binding = soonest(bindings)
      if (binding !== undefined) return yield* new ProviderError({ reason: refusal(models, binding) })
      const message = `No provider of ${models.join(", ")} is configured. A model is named provider/model`
      return yield* new ProviderError({ reason: new ModelUnavailable({ message }) })
    })
  }
}
