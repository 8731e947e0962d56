import { ProviderError, RateLimited } from "@bowline/domain/provider/ProviderError"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect } from "effect"
import type { CredentialPool } from "./CredentialPool.ts"
import type { ProviderCredential } from "../provider/Providers.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { Asked } from "../telemetry/ProviderMetrics.ts"

/** Who is asked: a model as `provider/model`, and the credential to ask with. */
export interface Target {
  readonly model: string
  readonly credential: ProviderCredential
}

export const providerOf = (model: string): string => model.slice(0, model.indexOf("/"))

/** The model as its provider calls it. */
export const ownName = (model: string): string => model.slice(model.indexOf("/") + 1)

/** The use of a target, for the pool. */
export const use = ({ model, credential }: Target) => ({
  provider: providerOf(model),
  credential: credential.id,
  model
})

/** The model as metrics tell it. */
export const asked = (model: string): Asked => ({ provider: providerOf(model), model: ownName(model) })

/** A free credential for the model that is not to be avoided, if there is one; else the wait for the next one, if it is known. */
export const pick = (
  pool: CredentialPool["Service"],
  session: SessionId,
  model: string,
  avoid: ReadonlySet<string> = new Set(),
  prefer?: string
) =>
  retryWhileAway(
    pool.pick({ provider: providerOf(model), model, session, avoid, ...(prefer === undefined ? {} : { prefer }) })
  )

/**
 * The target for the next attempt of its step: the same one, unless its credential is bound by now and another one is free, best
 * one that the step has not tried.
 */
export const again = Effect.fnUntraced(function* (
  pool: CredentialPool["Service"],
  session: SessionId,
  target: Target,
  tried: ReadonlySet<string>
): Effect.fn.Return<Target, StorageError> {
  const { model, credential } = target
  const others = new Set(tried)
  others.delete(credential.id)
  for (const avoid of others.size === 0 ? [others] : [others, new Set<string>()]) {
    const picked = yield* pick(pool, session, model, avoid, credential.id)
    if (picked._tag === "Picked") return { model, credential: picked.credential }
  }
  return target
})

/** The first of the models that has a free credential. Fails with the soonest time when none has. */
export const first = Effect.fnUntraced(function* (
  pool: CredentialPool["Service"],
  session: SessionId,
  models: ReadonlyArray<string>
): Effect.fn.Return<Target, ProviderError | StorageError> {
  const waits: Array<number> = []
  for (const model of models) {
    const picked = yield* pick(pool, session, model)
    if (picked._tag === "Picked") return { model, credential: picked.credential }
    if (picked.retryAfterMs !== undefined) waits.push(picked.retryAfterMs)
  }
  const message = `No credential is free for ${models.join(", ")}`
  const retryAfter = waits.length === 0 ? {} : { retryAfterMs: Math.min(...waits) }
  return yield* new ProviderError({ reason: new RateLimited({ message, ...retryAfter }) })
})
