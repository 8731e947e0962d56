import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"

export interface RetrySettings {
  /** Retries of a step. */
  readonly maxRetries: number
  /** The first wait is half of it to all of it, and the bound doubles with each retry. */
  readonly baseMs: number
}

/** The longest wait that a provider may ask for. */
const maxRetryAfterMs = 60_000

/** Why another attempt may help only once. */
const onceOnly: ReadonlyArray<ReadonlyArray<ProviderErrorReason["_tag"]>> = [
  ["first_token_timeout", "idle_timeout"],
  ["tool_json"],
  ["history_rejected"]
]

const isRetried = (reason: ProviderErrorReason): boolean => reason.isRetryable || reason._tag === "history_rejected"

export const retryAfterMs = (reason: ProviderErrorReason): number | undefined =>
  "retryAfterMs" in reason ? reason.retryAfterMs : undefined

/**
 * How long to wait before the next attempt of a step whose attempts have failed for these reasons, in milliseconds; nothing
 * when there is to be no other. What the provider asks for binds, with up to a tenth added; else the waits double, half of each
 * being random. `random` is in [0, 1).
 */
export const delayBeforeNext = (
  reasons: ReadonlyArray<ProviderErrorReason>,
  { maxRetries, baseMs }: RetrySettings,
  timeLeftMs: number,
  random: number
): number | undefined => {
  const last = reasons.at(-1)
  if (last === undefined || !isRetried(last) || reasons.length > maxRetries) return undefined
  const alike = onceOnly.find((tags) => tags.includes(last._tag)) ?? []
  if (reasons.filter(({ _tag }) => alike.includes(_tag)).length > 1) return undefined
  const asked = retryAfterMs(last)
  if (asked !== undefined && asked > maxRetryAfterMs) return undefined
  const bound = baseMs * 2 ** (reasons.length - 1)
  const delay = Math.round(asked === undefined ? bound / 2 + (bound / 2) * random : asked * (1 + random / 10))
  return delay > timeLeftMs ? undefined : delay
}
