import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import { Duration, Effect, Random, Schedule } from "effect"

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
 * The waits behind the failures of a step with one model, as many as it may make retries. They double, half of each being random.
 * What the provider asks for takes the place of one, with up to a tenth added.
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

/** Whether to make another attempt after this wait, in a step whose attempts have failed for these reasons. */
export const isWorth = (reasons: ReadonlyArray<ProviderErrorReason>, waitMs: number, timeLeftMs: number): boolean => {
  const last = reasons.at(-1)
  if (last === undefined || !isRetried(last) || waitMs > timeLeftMs) return false
  const alike = onceOnly.find((tags) => tags.includes(last._tag)) ?? []
  if (reasons.filter(({ _tag }) => alike.includes(_tag)).length > 1) return false
  return (retryAfterMs(last) ?? 0) <= maxRetryAfterMs
}
