import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import { Duration, Effect, Random, Schedule } from "effect"

export interface RetrySettings {
  /** Retries of a step. */
  readonly maxRetries: number
  /** The bound of the first wait, which is at least half of it. The bound doubles with each retry. */
  readonly baseMs: number
}

/** The longest wait that a provider may ask for. */
const maxRetryAfterMs = 60_000

/** Reasons for which one retry may help, but not a second one. */
const onceOnly: ReadonlyArray<ReadonlyArray<ProviderErrorReason["_tag"]>> = [
  ["first_token_timeout", "idle_timeout"],
  ["tool_json"],
  ["history_rejected"]
]

const isRetried = (reason: ProviderErrorReason): boolean => reason.isRetryable || reason._tag === "history_rejected"

export const retryAfterMs = (reason: ProviderErrorReason): number | undefined =>
  "retryAfterMs" in reason ? reason.retryAfterMs : undefined

/**
 * The waits after the failures of a step with one model: one for each retry. They double, and half of each is random. A wait
 * that the provider asks for replaces one of them, with up to a tenth added.
 */
export const waits = ({ maxRetries, baseMs }: RetrySettings) =>
  Schedule.exponential(baseMs).pipe(
    Schedule.setInputType<ProviderErrorReason>(),
    Schedule.upTo({ times: maxRetries }),
    Schedule.modifyDelay(({ input, duration }) =>
      Effect.map(Random.next, (random) => {
        const half = Duration.toMillis(duration) / 2
        const asked = retryAfterMs(input)
        return Duration.millis(Math.round(asked === undefined ? half + half * random : asked * (1 + random / 10)))
      })
    )
  )

/** Whether a retry after this wait is worth it, in a step whose attempts have failed for these reasons. */
export const isWorth = (reasons: ReadonlyArray<ProviderErrorReason>, waitMs: number, timeLeftMs: number): boolean => {
  const last = reasons.at(-1)
  if (last === undefined || !isRetried(last) || waitMs > timeLeftMs) return false
  const alike = onceOnly.find((tags) => tags.includes(last._tag)) ?? []
  if (reasons.filter(({ _tag }) => alike.includes(_tag)).length > 1) return false
  return (retryAfterMs(last) ?? 0) <= maxRetryAfterMs
}
