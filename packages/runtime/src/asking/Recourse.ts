import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import { isWorth } from "./RetryPolicy.ts"

/** What a step does about an attempt that has failed. */
export type Recourse =
  | { readonly _tag: "SameCredential" | "OtherCredential"; readonly delayMs: number }
  | { readonly _tag: "OtherModel" | "GiveUp" }

/** What a step may still do. */
export interface Chances {
  /** The wait before the next retry with this model; undefined once the retries are used up. */
  readonly waitMs: number | undefined
  readonly hasOtherCredential: boolean
  readonly hasOtherModel: boolean
  readonly timeLeftMs: number
}

/** A plan that has less time than this does not begin with another model. */
const failoverMs = 5_000

/** Whether another model may succeed where this one failed. */
const isOfModel = (reason: ProviderErrorReason): boolean =>
  reason.isRetryable ? reason._tag !== "tool_json" : ["auth", "billing", "model_unavailable"].includes(reason._tag)

const isOfCredential = (reason: ProviderErrorReason): boolean => reason._tag === "auth" || reason._tag === "billing"

const isSilence = (reason: ProviderErrorReason): boolean =>
  reason._tag === "first_token_timeout" || reason._tag === "idle_timeout"

/**
 * Decides by the reasons for which the attempts with this model have failed. A credential that is refused, is asked to wait, or
 * was silent twice gives way to another one that is free. A failure that time may heal is retried with the same credential. When
 * the retries are used up, the next model follows, if the plan has enough time left.
 */
export const decide = (reasons: ReadonlyArray<ProviderErrorReason>, chances: Chances): Recourse => {
  const last = reasons.at(-1)
  const { waitMs, timeLeftMs } = chances
  if (last === undefined) return { _tag: "GiveUp" }
  if (chances.hasOtherCredential && waitMs !== undefined) {
    const isAtOnce = isOfCredential(last) || (isSilence(last) && reasons.filter(isSilence).length > 1)
    if (isAtOnce || (last._tag === "rate_limited" && last.retryAfterMs !== undefined)) {
      return { _tag: "OtherCredential", delayMs: 0 }
    }
  }
  if (waitMs !== undefined && isWorth(reasons, waitMs, timeLeftMs)) {
    const gives = last._tag === "rate_limited" && chances.hasOtherCredential
    return { _tag: gives ? "OtherCredential" : "SameCredential", delayMs: waitMs }
  }
  const mayFailOver = chances.hasOtherModel && timeLeftMs >= failoverMs && isOfModel(last)
  return { _tag: mayFailOver ? "OtherModel" : "GiveUp" }
}
