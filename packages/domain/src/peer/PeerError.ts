import { Data, type Schema } from "effect"

interface Details {
  /** For the model and the caller: what happened, without secrets. */
  readonly message: string
}

/** The connection failed, with a code such as `ECONNREFUSED`; or no usable answer came for 30 s. */
export class Unreachable extends Data.TaggedClass("unreachable")<Details & { readonly code?: string | undefined }> {}
/** An answer with another status than 2xx. */
export class Http extends Data.TaggedClass("http")<Details & { readonly status: number }> {}
/** An answer that does not decode, and where. */
export class Protocol extends Data.TaggedClass("protocol")<Details> {}
/** An error of JSON-RPC; `data` is what the peer says besides. */
export class Rpc extends Data.TaggedClass("rpc")<
  Details & { readonly code: number; readonly data?: Schema.Json | undefined }
> {}
/** 401, 403, or a variable of the environment that is not set: then the message names it, and nothing was sent. */
export class Auth extends Data.TaggedClass("auth")<Details & { readonly status?: number }> {}
/** What an MCP server or an agent has said of the account that it wants: the authorization server, for which resource its tokens are (RFC 8707), and the scopes. */
export interface FoundAccount {
  readonly issuer: string
  readonly resource: string
  readonly scopes: ReadonlyArray<string>
}

/**
 * The gateway has nothing with which it could act as the caller now, so nothing was sent. `account` says what is missing: null is a valid token of the caller. Where the
 * server has taken the call before, the `mark` says how it goes on there. `found` is what the server says of an account that the configuration does not name.
 */
export class AccountRequired extends Data.TaggedClass("account_required")<
  Details & {
    readonly account: string | null
    readonly mark?: string | undefined
    readonly found?: FoundAccount | undefined
  }
> {}
/** 402. `terms` is the whole answer, which says what to pay, and how. */
export class PaymentRequired extends Data.TaggedClass("payment_required")<Details & { readonly terms?: Schema.Json }> {}
/** An answer of more bytes than the gateway reads. */
export class ResponseTooLarge extends Data.TaggedClass("response_too_large")<Details> {}
/** The answer of the peer is not signed, or not by the expected DID. The content is withheld. */
export class Untrusted extends Data.TaggedClass("untrusted")<Details> {}
/** An address that the gateway does not connect to. */
export class EgressDenied extends Data.TaggedClass("egress_denied")<Details> {}
/** Too many calls in a row have failed, so nothing was sent. The circuit lets a call through again after `retryAfterMs`. */
export class CircuitOpen extends Data.TaggedClass("circuit_open")<Details & { readonly retryAfterMs: number }> {}

/** Why a call of a peer has no result. */
export type PeerErrorReason =
  | Unreachable
  | Http
  | Protocol
  | Rpc
  | Auth
  | AccountRequired
  | PaymentRequired
  | ResponseTooLarge
  | Untrusted
  | EgressDenied
  | CircuitOpen

/**
 * A call of a peer that ended without a result of the peer's own.
 *
 * @example
 * ```ts
 * import type { PeerError } from "@bowline/domain/peer/PeerError"
 *
 * export const retryAfterMs = ({ reason }: PeerError): number | undefined =>
 *   reason._tag === "circuit_open" ? reason.retryAfterMs : undefined
 * ```
 */
export class PeerError extends Data.TaggedError("PeerError")<{
  readonly reason: PeerErrorReason
  /** The call had arrived before: a later request of it has failed, such as a question for its task. */
  readonly isTaken?: boolean
}> {
  override get message(): string {
    return this.reason.message
  }
}
