import type { Stage } from "@bowline/domain/plan/Stage"
import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { Array as Arrays } from "effect"

/**
 * What a failure puts aside: all of a credential, one model on it, or one model of the provider, whichever its credential.
 * `durations` are milliseconds: of the first window, of the next one if nothing succeeds in between, and so on; the last one stays.
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

const until = (window: CredentialWindow, retryAfterMs: number | undefined): CredentialWindow =>
  retryAfterMs === undefined ? window : { ...window, durations: [retryAfterMs] }

/**
 * The window that a failure opens, by the table of `docs/reference/provider.md`; none if it was not the key's fault. `stage` is
 * what the plan was waiting for: only an answer of a provider can be to blame, and silence only where the plan itself had
 * asked, not for a summary.
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
      return { scope: "model", durations: [5 * minute] }
    default:
      return undefined
  }
}
