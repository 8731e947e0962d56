import { Data } from "effect"

interface Details {
  /** For the caller and the log: what the provider said, without secrets. */
  readonly message: string
  /** The HTTP status, where there was one. */
  readonly status?: number
}

export class Billing extends Data.TaggedClass("billing")<Details & { readonly retryAfterMs?: number }> {
  readonly isRetryable = false
}
export class Auth extends Data.TaggedClass("auth")<Details> {
  readonly isRetryable = false
}
export class ModelUnavailable extends Data.TaggedClass("model_unavailable")<Details> {
  readonly isRetryable = false
}
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
export class BadRequest extends Data.TaggedClass("bad_request")<Details> {
  readonly isRetryable = false
}
export class RateLimited extends Data.TaggedClass("rate_limited")<Details & { readonly retryAfterMs?: number }> {
  readonly isRetryable = true
}
export class Overloaded extends Data.TaggedClass("overloaded")<Details & { readonly retryAfterMs?: number }> {
  readonly isRetryable = true
}
export class ServerError extends Data.TaggedClass("server_error")<Details & { readonly retryAfterMs?: number }> {
  readonly isRetryable = true
}
export class FirstTokenTimeout extends Data.TaggedClass("first_token_timeout")<Details> {
  readonly isRetryable = true
}
export class IdleTimeout extends Data.TaggedClass("idle_timeout")<Details> {
  readonly isRetryable = true
}
export class AttemptTimeout extends Data.TaggedClass("attempt_timeout")<Details> {
  readonly isRetryable = false
}
export class Transport extends Data.TaggedClass("transport")<
  Details & { readonly kind: "connect" | "reset" | "abort" }
> {
  readonly isRetryable = true
}
export class StreamTruncated extends Data.TaggedClass("stream_truncated")<Details> {
  readonly isRetryable = true
}
export class StreamCorrupt extends Data.TaggedClass("stream_corrupt")<Details> {
  readonly isRetryable = true
}
export class EmptyAnswer extends Data.TaggedClass("empty_answer")<Details> {
  readonly isRetryable = true
}
export class Unknown extends Data.TaggedClass("unknown")<Details> {
  readonly isRetryable = false
}

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

/** An attempt that did not finish, and why. Each reason knows whether another attempt can help. */
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
