import { Data } from "effect"

interface Details {
  /** For the caller and the log: what the provider said, without secrets. */
  readonly message: string
  /** The HTTP status, where there was one. */
  readonly status?: number
}

/** The account has no credit, or has used up what it may spend. */
export class Billing extends Data.TaggedClass("billing")<Details & { readonly retryAfterMs?: number }> {
  readonly isRetryable = false
}
/** `isUnexplained`: no code says why. Then the provider may refuse this request only, and take others with the same key. */
interface Refusal extends Details {
  readonly isUnexplained?: boolean
  readonly retryAfterMs?: number
}

/** The key is wrong, or may not do this. */
export class Auth extends Data.TaggedClass("auth")<Refusal> {
  readonly isRetryable = false
}
/** The provider has no such model, or not for this key. */
export class ModelUnavailable extends Data.TaggedClass("model_unavailable")<Refusal> {
  readonly isRetryable = false
}
/** The prompt is longer than the model reads. */
export class ContextOverflow extends Data.TaggedClass("context_overflow")<Details> {
  readonly isRetryable = false
}
/** The provider rejects the order of calls and results in the history. It would reject the same history again. */
export class HistoryRejected extends Data.TaggedClass("history_rejected")<Details> {
  readonly isRetryable = false
}
/** The model wrote a call that nobody can parse. Another attempt may do better. */
export class ToolJson extends Data.TaggedClass("tool_json")<Details> {
  readonly isRetryable = true
}
/** The provider refuses the request. It would refuse it again. */
export class BadRequest extends Data.TaggedClass("bad_request")<Details> {
  readonly isRetryable = false
}
/** Too many requests or tokens. `retryAfterMs` is what the provider said. */
export class RateLimited extends Data.TaggedClass("rate_limited")<Details & { readonly retryAfterMs?: number }> {
  readonly isRetryable = true
}
/** The provider has no room now. */
export class Overloaded extends Data.TaggedClass("overloaded")<Details & { readonly retryAfterMs?: number }> {
  readonly isRetryable = true
}
/** The provider failed, with a status of 5xx. */
export class ServerError extends Data.TaggedClass("server_error")<Details & { readonly retryAfterMs?: number }> {
  readonly isRetryable = true
}
/** No content came within the time to the first token. */
export class FirstTokenTimeout extends Data.TaggedClass("first_token_timeout")<Details> {
  readonly isRetryable = true
}
/** The stream was silent for too long. */
export class IdleTimeout extends Data.TaggedClass("idle_timeout")<Details> {
  readonly isRetryable = true
}
/** The attempt took longer than one may take. */
export class AttemptTimeout extends Data.TaggedClass("attempt_timeout")<Details> {
  readonly isRetryable = false
}
/** The connection could not be made, or was closed. */
export class Transport extends Data.TaggedClass("transport")<
  Details & { readonly kind: "connect" | "reset" | "abort" }
> {
  readonly isRetryable = true
}
/** The stream ended before the provider said that its answer is finished. */
export class StreamTruncated extends Data.TaggedClass("stream_truncated")<Details> {
  readonly isRetryable = true
}
/** The stream has something that is not its format. */
export class StreamCorrupt extends Data.TaggedClass("stream_corrupt")<Details> {
  readonly isRetryable = true
}
/** A finished answer without text and without calls. */
export class EmptyAnswer extends Data.TaggedClass("empty_answer")<Details> {
  readonly isRetryable = true
}
/** Anything else. */
export class Unknown extends Data.TaggedClass("unknown")<Details> {
  readonly isRetryable = false
}

/** Why an attempt did not finish. */
export type ProviderErrorReason =
  | Billing
  | Auth
  | ModelUnavailable
  | ContextOverflow
  | HistoryRejected
  | ToolJson
  | BadRequest
  | RateLimited
  | Overloaded
  | ServerError
  | FirstTokenTimeout
  | IdleTimeout
  | AttemptTimeout
  | Transport
  | StreamTruncated
  | StreamCorrupt
  | EmptyAnswer
  | Unknown

/**
 * An attempt that did not finish, and why. Each reason knows whether another attempt can help.
 *
 * @example
 * ```ts
 * import { ProviderError, RateLimited } from "@bowline/domain/provider/ProviderError"
 * import { Stream } from "effect"
 *
 * // What a provider of an app fails with.
 * export const limited = Stream.fail(
 *   new ProviderError({ reason: new RateLimited({ message: "Too many requests", status: 429, retryAfterMs: 1_000 }) })
 * )
 * ```
 */
export class ProviderError extends Data.TaggedError("ProviderError")<{ readonly reason: ProviderErrorReason }> {
  override get message(): string {
    return this.reason.message
  }
  /** On the wire: `provider_` and the reason; `context_overflow` alone has no prefix. */
  get code(): string {
    return this.reason._tag === "context_overflow" ? this.reason._tag : `provider_${this.reason._tag}`
  }
  /** In logs and metrics: the reason, and for `transport` its kind, too. */
  get type(): string {
    return this.reason._tag === "transport" ? `transport_${this.reason.kind}` : this.reason._tag
  }
  get isRetryable(): boolean {
    return this.reason.isRetryable
  }
}
