import type { PlanId } from "@bowline/domain/plan/Plan"
import { IdempotencyConflict } from "@bowline/domain/plan/Refusal"
import { Data, Duration, Effect } from "effect"
import { createHmac } from "node:crypto"
import { canonicalJson } from "./CanonicalJson.ts"

/** How long a key is kept. */
export const keptFor = Duration.hours(24)

/** An `Idempotency-Key` and the body that came with it, as they are stored: a digest of each. */
export interface Idempotency {
  readonly key: string
  readonly body: string
}

/** An earlier request with the same key and the same body started this plan. Nothing was written; the caller reads that plan. */
export class PlanExists extends Data.TaggedError("PlanExists")<{ readonly plan_id: PlanId }> {}

/**
 * The digests of a key and of a body. The body is the JSON value as the caller sent it; the order of its keys and its whitespace do
 * not matter. Both digests are HMAC-SHA-256 under the key, which is stored nowhere. A plain hash of a body would let a reader of the
 * store check guesses of the secrets in it; this way the reader has to guess the key first.
 */
export const idempotency = (key: string, body: unknown): Idempotency => {
  const digest = (text: string) => createHmac("sha256", key).update(text).digest("hex")
  // No body has this text: it is not JSON.
  return { key: digest("Idempotency-Key"), body: digest(canonicalJson(body)) }
}

/** The plan that an earlier request with this key started. Fails if the bodies differ. */
export const planOf = (
  taken: { readonly plan_id: PlanId; readonly body: string },
  { body }: Idempotency
): Effect.Effect<PlanId, IdempotencyConflict> =>
  taken.body === body ? Effect.succeed(taken.plan_id) : Effect.fail(new IdempotencyConflict())
