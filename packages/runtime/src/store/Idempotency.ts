import type { PlanId } from "@bowline/domain/plan/Plan"
import { IdempotencyConflict } from "@bowline/domain/plan/Refusal"
import { Data, Duration, Effect } from "effect"
import { createHmac } from "node:crypto"
import { canonicalJson } from "./CanonicalJson.ts"

/** How long a key stands for its plan. */
export const keptFor = Duration.hours(24)

/** What is stored of an `Idempotency-Key` and of the body that came with it: a digest of each. */
export interface Idempotency {
  readonly key: string
  readonly body: string
}

/** The key of the request has started this plan already, with the same body: nothing was written, and the plan is to be read. */
export class PlanExists extends Data.TaggedError("PlanExists")<{ readonly plan_id: PlanId }> {}

/**
 * The digests of a key and of a body, a JSON value as it was sent, whose key order and whitespace do not matter. A body may hold
 * secrets that can be guessed, and its plain hash would tell whether a guess is right: both digests are HMAC-SHA-256 under the key,
 * which is stored nowhere, so that whoever reads the store has to guess the key first.
 */
export const idempotency = (key: string, body: unknown): Idempotency => {
  const digest = (text: string) => createHmac("sha256", key).update(text).digest("hex")
  // No body has this text: it is not JSON.
  return { key: digest("Idempotency-Key"), body: digest(canonicalJson(body)) }
}

/** The plan that a taken key stands for, for those who send the same body. */
export const planOf = (
  taken: { readonly plan_id: PlanId; readonly body: string },
  { body }: Idempotency
): Effect.Effect<PlanId, IdempotencyConflict> =>
  taken.body === body ? Effect.succeed(taken.plan_id) : Effect.fail(new IdempotencyConflict())
