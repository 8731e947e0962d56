import type { Stage } from "@bowline/domain/plan/Outcome"
import {
  Auth,
  BadRequest,
  Billing,
  ModelUnavailable,
  type ProviderErrorReason,
  RateLimited
} from "@bowline/domain/provider/ProviderError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { Array as Arrays } from "effect"
import { longest } from "../provider/RetryAfter.ts"
import type { Binding } from "../record/BlockedRecord.ts"

export type { Binding }

/**
 * What a failure blocks: a credential, one model on a credential, or one model on every credential of its provider.
 * `durations` are milliseconds: those of the first window, of the next one if no attempt succeeds in between, and so on. All
 * further windows last as long as the last one.
 */
export interface CredentialWindow {
  readonly scope: "credential" | "credential_model" | "model"
  readonly durations: Arrays.NonEmptyReadonlyArray<number>
}

const second = 1_000
const minute = 60 * second
const hour = 60 * minute

const cooldown: CredentialWindow = {
  scope: "credential_model",
  durations: [30 * second, minute, 5 * minute]
}

const rejected: CredentialWindow = {
  scope: "credential",
  durations: [10 * minute, 20 * minute, 40 * minute, 60 * minute]
}

const unpaid: CredentialWindow = { scope: "credential", durations: [5 * hour, 10 * hour, 20 * hour, 24 * hour] }

/** An app's own provider may name what is no time at all, or too long a one. */
const until = (window: CredentialWindow, retryAfterMs = 0): CredentialWindow =>
  retryAfterMs > 0 ? { ...window, durations: [Math.min(retryAfterMs, longest)] } : window

/**
 * The window that a failure opens, by the table of `docs/reference/provider.md`; undefined if the credential is not to blame.
 * `stage` is the stage of the plan: a credential is blamed in the stages `provider` and `compaction` only, and for silence only
 * in the stage `provider`. A refusal has been `judged`.
 */
export const windowFor = (reason: ProviderErrorReason, stage: Stage): CredentialWindow | undefined => {
  if (stage !== "provider" && stage !== "compaction") return undefined
  switch (reason._tag) {
    case "rate_limited":
      return until(cooldown, reason.retryAfterMs)
    case "first_token_timeout":
    case "idle_timeout":
      return stage === "provider" ? cooldown : undefined
    case "auth":
      return rejected
    case "billing":
      return until(unpaid, reason.retryAfterMs)
    case "model_unavailable":
      return reason.isUnexplained === true ? undefined : { scope: "model", durations: [5 * minute] }
    default:
      return undefined
  }
}

/** For how long a success shows that a key is good, in milliseconds. */
const trust = 10 * minute

/**
 * What a refusal means that no code explains, so many milliseconds behind the last success of its key: shortly behind one it is about its
 * request. If it speaks of the model it stays `model_unavailable`, so that another model is asked, and is not explained. Behind no success it is
 * what it seems.
 */
export const judged = (reason: ProviderErrorReason, succeededMs: number): ProviderErrorReason => {
  if ((reason._tag !== "auth" && reason._tag !== "model_unavailable") || reason.isUnexplained !== true) return reason
  const { message, status } = reason
  const details = { message, ...(status === undefined ? {} : { status }) }
  if (succeededMs < trust) return reason._tag === "auth" ? new BadRequest(details) : reason
  return reason._tag === "auth" ? new Auth(details) : new ModelUnavailable(details)
}

/** Whether time heals what a window was opened for. A refused key stays refused until somebody does something about it. */
export const isPassing = ({ reason }: Pick<Binding, "reason">): boolean =>
  !["auth", "billing", "model_unavailable"].includes(reason)

/** The one to report of several: the first to end of those that pass, else the first to end. */
export const soonest = (bindings: ReadonlyArray<Binding>): Binding | undefined =>
  bindings.toSorted((a, b) => Number(isPassing(b)) - Number(isPassing(a)) || a.leftMs - b.leftMs)[0]

/** Why no model can be asked: what the window was opened for, since when and until when, and what ends it. */
export const refusal = (models: ReadonlyArray<string>, binding: Binding): ProviderErrorReason => {
  const { credential, leftMs: retryAfterMs, reason, since, until } = binding
  const from = since === null ? "" : ` since ${fromMillis(since)}`
  const message =
    `No credential is free for ${models.join(", ")}: ${credential} is blocked for ${reason}${from}, until ${fromMillis(until)}. ` +
    `To end this at once: bowline credentials clear ${credential}`
  const details = { message, retryAfterMs }
  switch (reason) {
    case "auth":
      return new Auth(details)
    case "billing":
      return new Billing(details)
    case "model_unavailable":
      return new ModelUnavailable(details)
    default:
      return new RateLimited(details)
  }
}
