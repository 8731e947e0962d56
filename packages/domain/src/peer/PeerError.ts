import { Data } from "effect"

interface Details {
  /** For the model and the caller: what happened, without secrets. */
  readonly message: string
}

/** No connection, or not one good answer for 30 s. */
export class Unreachable extends Data.TaggedClass("unreachable")<Details> {}
export class Http extends Data.TaggedClass("http")<Details & { readonly status: number }> {}
/** An answer that does not decode, and where. */
export class Protocol extends Data.TaggedClass("protocol")<Details> {}
export class Rpc extends Data.TaggedClass("rpc")<Details & { readonly code: number; readonly data?: unknown }> {}
/** 401, 403, or a variable of the environment that is not there: it is named, and nothing was sent. */
export class Auth extends Data.TaggedClass("auth")<Details> {}
export class PaymentRequired extends Data.TaggedClass("payment_required")<Details & { readonly terms?: unknown }> {}
export class ResponseTooLarge extends Data.TaggedClass("response_too_large")<Details> {}

export type PeerErrorReason = Unreachable | Http | Protocol | Rpc | Auth | PaymentRequired | ResponseTooLarge

/** A call of a peer that ended without a result of the peer's own. */
export class PeerError extends Data.TaggedError("PeerError")<{ readonly reason: PeerErrorReason }> {
  override get message(): string {
    return this.reason.message
  }
}
